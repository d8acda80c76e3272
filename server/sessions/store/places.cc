#include "server/sessions/store/places.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/sessions/record/record_json.h"

namespace tvq {

Places::Places(const StoreContext& context, std::vector<int64_t> empty_bytes, int64_t capacity)
    : context_(context),
      empty_bytes_(std::move(empty_bytes)),
      capacity_(capacity, context.options.max_bytes_per_owner, std::ranges::max(empty_bytes_)) {}

int64_t Places::StateBytes(const SessionContent& content) const {
  if (content.present.checkpoint != nullptr) return content.present.checkpoint->bytes();
  const int64_t tokens = std::max<int64_t>(1, content.record.position);
  return content.model ? context_.model(*content.model).StateBytes(tokens) : 0;
}

int64_t Places::LargestImage(size_t model, int64_t position) const {
  const Model& kept = context_.model(model);
  return empty_bytes_[model] - kept.StateBytes(0) + kept.StateBytes(position);
}

int64_t Places::VersionBytes(const SessionContent& content, int64_t position) const {
  const int64_t ids = content.record.has_transcript ? position : 0;
  return LargestImage(*content.model, position) + ids * int64_t{sizeof(int32_t)};
}

int64_t Places::MarksBytes(const SessionContent& content) const {
  if (context_.durable == nullptr) return 0;
  int64_t bytes = 0;
  for (const KeptMark& mark : content.marks) bytes += MostJsonBytes(mark.record);
  return bytes;
}

int64_t Places::PresentBytes(const SessionContent& content) const {
  return VersionBytes(content, content.record.position) + content.replies.bytes() +
         MarksBytes(content);
}

absl::StatusOr<std::shared_ptr<Capacity::Place>> Places::Reserve(const std::string& owner,
                                                                 int64_t bytes) {
  auto place = capacity_.Reserve(owner, bytes);
  if (!place.ok()) return place.status();
  return std::make_shared<Capacity::Place>(*std::move(place));
}

std::shared_ptr<Capacity::Place> Places::Force(const std::string& owner, int64_t bytes) {
  return std::make_shared<Capacity::Place>(capacity_.Force(owner, bytes));
}

void Places::Fit(const SessionContent& content) const {
  if (content.present.place != nullptr) content.present.place->Force(PresentBytes(content));
}

absl::Status Places::ReserveGrowth(const SessionContent& content, int64_t position) const {
  const Model& grown = context_.model(*content.model);
  // What the context length does not allow, the engine refuses.
  if (!grown.StatesGrow() || position > grown.info().config.max_position) return absl::OkStatus();
  const int64_t growth =
      VersionBytes(content, position) - VersionBytes(content, content.record.position);
  if (growth <= 0) return absl::OkStatus();
  const int64_t bytes = PresentBytes(content) + growth;
  if (bytes > capacity_.largest()) {
    return Refused(Reason::kStateTooLarge, "max_tokens",
                   absl::StrCat("a state at position ", position, " takes ", bytes,
                                " bytes, more than the sessions of a key may have here, ",
                                capacity_.largest()));
  }
  return content.present.place->Resize(bytes);
}

}  // namespace tvq
