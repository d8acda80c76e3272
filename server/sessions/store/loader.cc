#include "server/sessions/store/loader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/record/record_json.h"
#include "server/sessions/snapshot/snapshot.h"
#include "server/sessions/snapshot/state_image.h"

namespace tvq {
namespace {

// Sessions that UnloadParked looks at while others wait for the mutex.
constexpr size_t kUnloadsAtOnce = 1000;

}  // namespace

absl::Status Loader::LoadStored() {
  if (context_.durable == nullptr) return absl::OkStatus();
  const EntryState state = context_.shares_storage() ? EntryState::kForeign : EntryState::kIdle;
  return context_.durable->ForEach([&](SessionRecord record) {
    EntryPtr entry = FromRecord(std::move(record), state);
    const MutexLock lock(&table_.mutex);
    if (table_.index.Find(entry->content->record.id) == nullptr) table_.Enlist(std::move(entry));
  });
}

EntryPtr Loader::FromRecord(SessionRecord record, EntryState state) {
  auto entry = std::make_shared<SessionEntry>(state);
  entry->persisted_version = record.version;
  entry->last_used = entry->stored_use = record.last_used;
  entry->may_be_stored = true;
  SessionContent content;
  content.record = record;
  content.record.marks.clear();
  if (const auto index = context_.ModelIndex(record.model); index.ok()) content.model = *index;
  const auto stored = [&](int64_t position, int64_t number, int64_t marks_bytes) {
    Version version{.loaded = false};
    if (!content.model) return version;
    version.place =
        places_.Force(record.owner, places_.VersionBytes(content, position) + marks_bytes);
    if (position == 0) return version;
    const int64_t bytes = context_.model(*content.model).StateBytes(position);
    version.checkpoint = tiers_.AddStored(
        *content.model, bytes, places_.LargestImage(*content.model, position), {record.id, number});
    return version;
  };
  int64_t all_marks = 0, marks_so_far = 0;
  for (const MarkRecord& mark : record.marks) all_marks += MostJsonBytes(mark);
  content.present = stored(record.position, record.version, all_marks);
  for (const MarkRecord& mark : record.marks) {
    marks_so_far += MostJsonBytes(mark);
    // A mark of the present version is at the present state.
    KeptMark kept{.record = mark, .kept = stored(mark.position, mark.version, marks_so_far)};
    // It has no replies.
    kept.kept.loaded = content.model && (!record.has_transcript || mark.position == 0);
    if (mark.version == record.version) kept.kept.checkpoint = content.present.checkpoint;
    content.marks.push_back(std::move(kept));
  }
  entry->content = std::make_shared<const SessionContent>(std::move(content));
  return entry;
}

absl::Status Loader::Load(const SessionContent& content, int64_t number, Version& version,
                          Replies* replies, std::shared_ptr<const CheckpointHead>* state_head) {
  Checkpoint* const checkpoint = version.checkpoint.get();
  const bool wants_head = checkpoint != nullptr && state_head != nullptr;
  if (wants_head) *state_head = tiers_.Head(*checkpoint);
  const bool lacks_head = wants_head && *state_head == nullptr;
  if (version.loaded && !lacks_head) return absl::OkStatus();
  const auto damaged = [&](const absl::Status& status) {
    auto loss = AsDataLoss(
        status, absl::StrCat("session ", content.record.id, ", stored version ", number));
    const MutexLock lock(&table_.mutex);
    if (absl::IsDataLoss(loss)) ++table_.totals.corrupt;
    return loss;
  };
  const auto source = context_.durable->Get(content.record.id, number);
  if (absl::IsNotFound(source.status())) {
    return absl::DataLossError(absl::StrCat("session ", content.record.id, ", version ", number,
                                            ": it is not stored any more"));
  }
  if (!source.ok()) return source.status();
  const auto head = ReadSnapshotHead(source->get());
  if (!head.ok()) return damaged(head.status());
  if (lacks_head) {
    const ModelInfo& info = context_.model(checkpoint->model()).info();
    auto image = OpenSnapshotState(*head, source->get(), info);
    if (!image.ok()) return damaged(image.status());
    *state_head = std::make_shared<const CheckpointHead>(HeadOf(*image));
  }
  if (version.loaded) return absl::OkStatus();
  version.tokens.Append(head->transcript);
  version.loaded = true;
  if (replies == nullptr) return absl::OkStatus();
  for (const Outcome& outcome : head->outcomes) {
    replies->Restore(outcome.idempotency_key, outcome.reply);
  }
  return absl::OkStatus();
}

absl::Status Loader::LoadPresent(SessionEntry& entry,
                                 std::shared_ptr<const CheckpointHead>& state_head) {
  SessionContent next = *entry.content;  // no other call changes it
  const bool loaded = next.present.loaded;
  auto status = Load(next, next.record.version, next.present, &next.replies, &state_head);
  if (!status.ok() || loaded) return status;
  next.present.place->Force(places_.PresentBytes(next));
  ContentPtr content = std::make_shared<const SessionContent>(std::move(next));
  const MutexLock lock(&table_.mutex);
  content.swap(entry.content);
  parked_.push_back(entry.content->record.id);  // if no commit follows
  return absl::OkStatus();
}

int64_t Loader::UnloadParked() {
  std::vector<std::string> ids;
  {
    const MutexLock lock(&table_.mutex);
    ids.swap(parked_);
  }
  int64_t unloaded = 0;
  for (std::span<std::string> rest = ids; !rest.empty() && !context_.stopping;) {
    const auto next = rest.first(std::min(rest.size(), kUnloadsAtOnce));
    unloaded += Unload(next);
    rest = rest.subspan(next.size());
  }
  while (!context_.stopping) {
    ids = tiers_.TakeParked(kUnloadsAtOnce);
    if (ids.empty()) break;
    unloaded += Unload(ids);
  }
  return unloaded;
}

int64_t Loader::Unload(std::span<std::string> ids) {
  std::vector<ContentPtr> forgotten;  // freed after the lock
  const MutexLock lock(&table_.mutex);
  for (std::string& id : ids) {
    const EntryPtr entry = table_.index.Find(id);
    if (entry == nullptr) continue;
    const Version& present = entry->content->present;
    if (entry->leased()) {
      parked_.push_back(std::move(id));  // if the call does not change it
      continue;
    }
    if (!entry->saved() || !present.loaded || present.checkpoint == nullptr ||
        tiers_.Where(*present.checkpoint) != Tier::kDurable) {
      continue;
    }
    SessionContent next = *entry->content;
    next.present.tokens = TokenLog();
    next.present.loaded = false;
    next.replies = Replies();
    forgotten.push_back(
        std::exchange(entry->content, std::make_shared<const SessionContent>(std::move(next))));
  }
  return static_cast<int64_t>(forgotten.size());
}

}  // namespace tvq
