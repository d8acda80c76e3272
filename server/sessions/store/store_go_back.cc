// The way back to where a session and a conversation are still the same.
#include <algorithm>
#include <utility>

#include "server/sessions/store/store.h"

namespace tvq {
namespace {

// How many of the first tokens are the same.
int64_t Common(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

absl::StatusOr<Store::Place> Store::LastPlace(const Begun& begun, std::span<const int32_t> tokens) {
  const SessionContent& content = *begun.entry->content;  // the lease keeps it what it is
  const bool cuts = model(*content.model).StatesCut();
  Place last;
  const auto look = [&](const Moment& moment, const CheckpointHead& head,
                        const std::optional<AnswerEnd>& answer_end) {
    const std::vector<int32_t> held = moment.tokens.Ids();
    int64_t position = Common(held, tokens);
    const bool whole = position == std::ssize(held);
    // Short of its end nothing says what comes next: there must be a token to feed.
    if (!whole) position = std::min(position, std::ssize(tokens) - 1);
    if (position <= last.position() || (position < head.position && !cuts)) return;
    const int64_t fed = std::min(position, head.position);
    last = {.checkpoint = moment.checkpoint,
            .head = {.position = fed,
                     .pending = {held.begin() + fed, held.begin() + position},
                     .logits = whole ? head.logits : nullptr},
            .tokens = moment.tokens.First(position)};
    if (whole) last.answer_end = answer_end;
  };
  const Moment& present = content.present;
  if (present.checkpoint != nullptr) look(present, *begun.state_head, content.record.answer_end);
  std::vector<const KeptMark*> marks;
  for (const KeptMark& mark : content.marks) {
    if (mark.moment.checkpoint != nullptr) marks.push_back(&mark);
  }
  std::ranges::stable_sort(marks, std::greater(),
                           [](const KeptMark* mark) { return mark->record.position; });
  for (const KeptMark* const mark : marks) {
    if (mark->record.position <= last.position()) break;
    // All but the one token that may be pending is in its state.
    if (!cuts && mark->record.position - 1 > std::ssize(tokens)) continue;
    Moment moment = mark->moment;
    std::shared_ptr<const CheckpointHead> head;
    const auto loaded = Load(content, mark->record.version, moment, nullptr, &head);
    if (absl::IsDataLoss(loaded)) continue;  // one before it may serve
    if (!loaded.ok()) return loaded;
    look(moment, *head, mark->record.answer_end);
  }
  return last;
}

}  // namespace tvq
