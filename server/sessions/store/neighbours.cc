#include "server/sessions/store/neighbours.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

// Reading all records may take a tenth of the time.
constexpr int kLearningShare = 9;

}  // namespace

absl::Status Neighbours::FindMade(const SessionRecord& wanted) {
  if (!context_.shares_storage() || wanted.creation_key.empty()) return absl::OkStatus();
  const auto ids = context_.durable->CreatedBy(wanted);
  if (absl::IsUnavailable(ids.status())) return absl::OkStatus();  // sessions in memory go on
  if (!ids.ok()) return ids.status();
  std::set<std::string> doubtful(ids->begin(), ids->end());
  {
    const MutexLock lock(&table_.mutex);
    for (const EntryPtr& entry :
         table_.index.CreatedBy(wanted.owner, wanted.parent_id, wanted.creation_key)) {
      if (entry->foreign()) doubtful.insert(entry->content->record.id);  // may be gone since
    }
  }
  for (const std::string& id : doubtful) {
    if (auto status = claims_.Refresh(wanted.owner, id, /*claim=*/false); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

void Neighbours::Learn(const std::string& id, std::optional<SessionRecord> record) {
  EntryPtr known;
  std::string owner;
  bool foreign = true;
  {
    const MutexLock lock(&table_.mutex);
    known = table_.index.Find(id);
    if (known == nullptr && (!record || table_.WasDropped(id))) return;
    if (known != nullptr) {
      if (known->leased()) return;  // its call knows better
      owner = known->content->record.owner;
      foreign = known->foreign();
      const int64_t version = record ? record->version : 0;
      if (foreign && record && version <= known->persisted_version) {
        if (version == known->persisted_version) table_.index.Touch(*known, record->last_used);
        return;
      }
      if (!foreign && version == known->persisted_version) return;
    }
  }
  if (!foreign) {
    (void)claims_.Refresh(owner, id, /*claim=*/false);  // it sees whether the claim holds
    return;
  }
  claims_.Replace(id, known,
                  record ? loader_.FromRecord(*std::move(record), EntryState::kForeign) : nullptr);
}

absl::Status Neighbours::LearnStored() {
  if (!context_.shares_storage()) return absl::OkStatus();
  const auto began = std::chrono::steady_clock::now();
  std::vector<ContentPtr> stored;
  {
    const MutexLock lock(&table_.mutex);
    if (learning_ || began < learn_again_) return absl::OkStatus();
    learning_ = true;
    table_.WatchDrops();
    stored.reserve(static_cast<size_t>(table_.index.size()));
    table_.index.ForEach([&](const EntryPtr& entry) {
      if (entry->persisted_version > 0) stored.push_back(entry->content);
    });
  }
  std::set<std::string> unseen;
  for (const ContentPtr& content : stored) unseen.insert(content->record.id);
  std::vector<SessionRecord> records;
  const auto status = context_.durable->ForEach(
      [&](SessionRecord record) { records.push_back(std::move(record)); });
  if (status.ok()) {
    for (SessionRecord& record : records) {
      const std::string id = record.id;
      unseen.erase(id);
      Learn(id, std::move(record));
    }
    for (const std::string& id : unseen) Learn(id, std::nullopt);
  }
  const auto now = std::chrono::steady_clock::now();
  const MutexLock lock(&table_.mutex);
  learning_ = false;
  learn_again_ = now + kLearningShare * (now - began);
  table_.ForgetDrops();
  return absl::IsUnavailable(status) ? absl::OkStatus() : status;
}

void Neighbours::CheckInstance() {
  if (!context_.shares_storage()) return;
  const auto name = context_.durable->Instance();
  if (!name.ok()) return;
  std::vector<std::pair<EntryPtr, int64_t>> stored;
  {
    const MutexLock lock(&table_.mutex);
    const std::string before = std::exchange(instance_, *name);
    if (before.empty() || before == instance_) return;
    table_.index.ForEach([&](const EntryPtr& entry) {
      if (!entry->foreign() && entry->persisted_version > 0) {
        stored.emplace_back(entry, entry->persisted_version);
      }
    });
  }
  for (const auto& [entry, version] : stored) claims_.Unstore(*entry, version);
  if (context_.options.on_loss) {
    context_.options.on_loss(absl::StrCat("the durable tier lost its data; ", stored.size(),
                                          " sessions of this server are not saved any more"));
  }
}

}  // namespace tvq
