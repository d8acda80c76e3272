// Making, finding and removing sessions.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/runtime/quoted.h"
#include "server/sessions/session_id.h"
#include "server/sessions/store.h"

namespace tvq {
namespace {

constexpr size_t kMaxLabelBytes = 256;
constexpr size_t kMaxKeyBytes = 128;
constexpr int64_t kDefaultPage = 100;
constexpr int64_t kMaxPage = 1000;

absl::Status CheckBytes(const char* field, const std::string& value, size_t max) {
  if (value.size() <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": has ", value.size(), " bytes, may have ", max));
}

}  // namespace

absl::Status CheckNaming(const std::string& label, const std::optional<absl::Duration>& ttl) {
  if (ttl && *ttl <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ttl: is ", absl::FormatDuration(*ttl), ", must be positive"));
  }
  return CheckBytes("label", label, kMaxLabelBytes);
}

Store::EntryPtr Store::NewEntry(SessionContent content) {
  auto entry = std::make_shared<SessionEntry>();
  entry->last_used = content.record.created;
  entry->content = std::make_shared<const SessionContent>(std::move(content));
  entry->leased = true;
  return entry;
}

int64_t Store::Bytes(const SessionContent& content) const {
  if (content.present.checkpoint != nullptr) return content.present.checkpoint->bytes();
  return content.model ? model(*content.model).StateBytes(/*tokens=*/1) : 0;
}

absl::StatusOr<size_t> Store::ModelIndex(const std::string& name) const {
  const auto& models = engine_->models();
  if (name.empty()) {
    if (models.size() == 1) return 0;
    return absl::InvalidArgumentError(
        absl::StrCat("model: must be given, because the server has ", models.size(), " models"));
  }
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i].name == name) return i;
  }
  return absl::NotFoundError(absl::StrCat("model: there is no model ", Quoted(name)));
}

absl::StatusOr<Moment> Store::NewMoment(const SessionContent& content,
                                        std::shared_ptr<Checkpoint> at, TokenLog tokens) {
  auto place = capacity_.Reserve(at != nullptr ? at->bytes()
                                               : model(*content.model).StateBytes(/*tokens=*/1));
  if (!place.ok()) return place.status();
  return Moment{.checkpoint = std::move(at),
                .tokens = std::move(tokens),
                .place = std::make_shared<Capacity::Place>(*std::move(place))};
}

absl::StatusOr<Store::EntryPtr> Store::Find(const std::string& owner, const std::string& id) const {
  EntryPtr entry = table_.Find(id);
  // Another owner's session looks exactly like one that does not exist.
  if (entry == nullptr || entry->content->record.owner != owner) {
    return absl::NotFoundError(absl::StrCat("session_id: there is no session ", Quoted(id)));
  }
  return entry;
}

SessionView Store::View(const SessionEntry& entry) const {
  SessionView view;
  view.record = entry.Record();
  const SessionContent& content = *entry.content;
  if (content.present.checkpoint != nullptr) {
    view.tier = tiers_->Where(*content.present.checkpoint);
  }
  view.bytes = Bytes(content);
  return view;
}

absl::Status Store::Insert(const std::vector<EntryPtr>& entries) {
  const absl::MutexLock lock(&mutex_);
  const SessionRecord& record = entries.front()->content->record;
  const std::string& owner = record.owner;
  if (!table_.CreatedBy(owner, record.parent_id, record.creation_key).empty()) {
    return absl::AbortedError("idempotency_key: another call with this key is being answered");
  }
  const int64_t count = table_.CountOf(owner);
  const int64_t limit = options_.max_sessions_per_owner;
  if (limit > 0 && count + static_cast<int64_t>(entries.size()) > limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("sessions: there are ", count, " of this key, which may have ", limit));
  }
  for (const EntryPtr& entry : entries) table_.Insert(entry);
  totals_.created += static_cast<int64_t>(entries.size());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SessionView>> Store::Made(const std::vector<EntryPtr>& entries,
                                                     Durability) {
  std::vector<SessionView> views;
  const absl::MutexLock lock(&mutex_);
  for (const EntryPtr& entry : entries) {
    entry->leased = false;
    views.push_back(View(*entry));
  }
  return views;
}

absl::StatusOr<SessionView> Store::Create(const std::string& owner, const CreateOptions& options) {
  if (auto status = CheckNaming(options.label, options.ttl); !status.ok()) return status;
  if (auto status = CheckBytes("idempotency_key", options.idempotency_key, kMaxKeyBytes);
      !status.ok()) {
    return status;
  }
  const auto index = ModelIndex(options.model);
  if (!index.ok()) return index.status();
  {
    const absl::MutexLock lock(&mutex_);
    const auto earlier = table_.CreatedBy(owner, "", options.idempotency_key);
    if (!earlier.empty()) return View(*earlier.front());
  }
  SessionContent content;
  content.model = *index;
  content.record = {.id = NewSessionId(),
                    .owner = owner,
                    .model = engine_->models()[*index].name,
                    .label = options.label,
                    .created = clock_(),
                    .ttl = options.ttl.value_or(options_.default_ttl),
                    .has_transcript = options.keep_transcript.value_or(options_.keep_transcript),
                    .creation_key = options.idempotency_key};
  auto moment = NewMoment(content, nullptr, {});
  if (!moment.ok()) return moment.status();
  content.present = *std::move(moment);
  const EntryPtr entry = NewEntry(std::move(content));
  if (auto status = Insert({entry}); !status.ok()) return status;
  auto views = Made({entry}, options.durability);
  if (!views.ok()) return views.status();
  return std::move(views->front());
}

absl::StatusOr<SessionView> Store::Get(const std::string& owner, const std::string& id) {
  const absl::MutexLock lock(&mutex_);
  const auto entry = Find(owner, id);
  if (!entry.ok()) return entry.status();
  return View(**entry);
}

absl::StatusOr<std::vector<int32_t>> Store::Transcript(const std::string& owner,
                                                       const std::string& id) {
  std::shared_ptr<const SessionContent> content;
  {
    const absl::MutexLock lock(&mutex_);
    const auto entry = Find(owner, id);
    if (!entry.ok()) return entry.status();
    content = (*entry)->content;
  }
  return content->present.tokens.Ids();
}

absl::StatusOr<SessionPage> Store::List(const std::string& owner, const ListFilter& filter,
                                        int64_t page_size, const std::string& page_token) {
  const int64_t size = page_size <= 0 ? kDefaultPage : std::min(page_size, kMaxPage);
  const absl::MutexLock lock(&mutex_);
  auto found = table_.List(owner, filter, size, page_token);
  if (!found.ok()) return found.status();
  SessionPage page;
  for (const EntryPtr& entry : found->entries) page.sessions.push_back(View(*entry));
  page.next_page_token = std::move(found->next_page_token);
  return page;
}

absl::Status Store::Delete(const SessionCall& call) {
  auto begun = Begin(call, "delete");
  if (!begun.ok()) return begun.status();
  const absl::MutexLock lock(&mutex_);
  begun->entry->deleted = true;
  table_.Erase(begun->entry->content->record.id);
  ++totals_.deleted;
  return absl::OkStatus();
}

}  // namespace tvq
