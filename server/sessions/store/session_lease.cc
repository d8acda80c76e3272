#include "server/sessions/store/session_lease.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/sessions/record/session_limits.h"

namespace tvq {
namespace {

// How many of the first tokens are the same.
int64_t Common(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

SessionLease::SessionLease(const Parts& parts, SessionCall call, Begun begun, SessionRecord record)
    : parts_(parts), call_(std::move(call)), begun_(std::move(begun)), record_(std::move(record)) {}

SessionLease::~SessionLease() {
  if (begun_.lease) parts_.places.Fit(content());
}

std::optional<StartPoint> SessionLease::Start() {
  const auto& checkpoint = past_ ? past_->checkpoint : content().present.checkpoint;
  if (checkpoint == nullptr) return std::nullopt;
  StartPoint start = parts_.tiers.Start(checkpoint, past_ ? past_->head : *begun_.state_head);
  start.answer_end = record_.answer_end;
  return start;
}

absl::StatusOr<std::vector<int32_t>> SessionLease::Transcript() const {
  if (record_.has_transcript) return content().present.tokens.Ids();
  return Refused(Reason::kTranscriptMissing, "session_id",
                 absl::StrCat("session ", record_.id,
                              " keeps no transcript, must have been created with keep_transcript"));
}

absl::StatusOr<int64_t> SessionLease::GoBack(std::span<const int32_t> tokens) {
  auto place = LastPlace(tokens);
  if (!place.ok()) return place.status();
  past_ = *std::move(place);
  record_.position = past_->position();
  record_.answer_end = past_->answer_end;
  return record_.position;
}

absl::StatusOr<SessionLease::Past> SessionLease::LastPlace(std::span<const int32_t> tokens) const {
  const SessionContent& content = this->content();
  const bool cuts = parts_.context.model(*content.model).StatesCut();
  Past last;
  const auto look = [&](const Version& version, const CheckpointHead& head,
                        const std::optional<AnswerEnd>& answer_end) {
    const std::vector<int32_t> held = version.tokens.Ids();
    int64_t position = Common(held, tokens);
    const bool whole = position == std::ssize(held);
    // Short of its end nothing says what comes next: there must be a token to feed.
    if (!whole) position = std::min(position, std::ssize(tokens) - 1);
    if (position <= last.position() || (position < head.position && !cuts)) return;
    const int64_t fed = std::min(position, head.position);
    last = {.checkpoint = version.checkpoint,
            .head = {.position = fed,
                     .pending = {held.begin() + fed, held.begin() + position},
                     .logits = whole ? head.logits : nullptr},
            .tokens = version.tokens.First(position)};
    if (whole) last.answer_end = answer_end;
  };
  const Version& present = content.present;
  if (present.checkpoint != nullptr) look(present, *begun_.state_head, content.record.answer_end);
  std::vector<const KeptMark*> marks;
  for (const KeptMark& mark : content.marks) {
    if (mark.kept.checkpoint != nullptr) marks.push_back(&mark);
  }
  std::ranges::stable_sort(marks, std::greater(),
                           [](const KeptMark* mark) { return mark->record.position; });
  for (const KeptMark* const mark : marks) {
    if (mark->record.position <= last.position()) break;
    // All but the one token that may be pending is in its state.
    if (!cuts && mark->record.position - 1 > std::ssize(tokens)) continue;
    Version kept = mark->kept;
    std::shared_ptr<const CheckpointHead> head;
    const auto loaded = parts_.loader.Load(content, mark->record.version, kept, nullptr, &head);
    if (absl::IsDataLoss(loaded)) continue;  // one before it may serve
    if (!loaded.ok()) return loaded;
    look(kept, *head, mark->record.answer_end);
  }
  return last;
}

absl::Status SessionLease::Reserve(int64_t position) {
  return begun_.lease ? parts_.places.ReserveGrowth(content(), position) : absl::OkStatus();
}

absl::StatusOr<SessionView> SessionLease::Commit(Continuation next, std::string reply) {
  if (!begun_.lease) std::abort();  // a second commit, or one after a replay
  if (!call_.idempotency_key.empty() && reply.size() > kMaxReplyBytes) {
    // A retry would not find it, and be done again.
    return absl::InternalError(absl::StrCat("session ", call_.id, ": a reply of ", reply.size(),
                                            " bytes cannot be kept, ", kMaxReplyBytes, " can"));
  }
  const EntryLease lease = *std::move(begun_.lease);
  begun_.lease.reset();
  const absl::Cleanup fit = [&] { parts_.places.Fit(content()); };
  SessionContent to = content();
  if (past_) {
    to.record.position = past_->position();
    to.present.tokens = past_->tokens;
  }
  to.record.position += static_cast<int64_t>(next.tokens.size());
  const int64_t position = next.held.state->position() + static_cast<int64_t>(next.pending.size());
  if (position != to.record.position) {
    return absl::InternalError(absl::StrCat("session ", to.record.id, ": the state is at ",
                                            position, ", its tokens end at ", to.record.position));
  }
  to.record.answer_end = std::move(next.answer_end);
  if (to.record.has_transcript) to.present.tokens.Append(next.tokens);
  to.present.checkpoint = parts_.tiers.Add(*to.model, std::move(next));
  to.replies.Add(call_.idempotency_key, AskedBy(CallKind::kCompute, call_.request_hash), reply);
  return parts_.commits.Commit(lease, std::move(to), call_.durability);
}

}  // namespace tvq
