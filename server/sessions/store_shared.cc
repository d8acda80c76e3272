// A durable tier that other servers use too.
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/session_id.h"
#include "server/sessions/store.h"

namespace tvq {

absl::Status Store::Refresh(const std::string& owner, const std::string& id, bool claim) {
  if (durable_ == nullptr || !durable_->shared() || !IsSessionId(id)) return absl::OkStatus();
  EntryPtr known;
  {
    const MutexLock lock(&mutex_);
    known = table_.Find(id);
    if (known != nullptr) {
      if (known->content->record.owner != owner || known->leased) return absl::OkStatus();
      // What was never stored, nobody else can know.
      if (known->claimed && (known->persisted_version == 0 || !claim)) return absl::OkStatus();
    }
  }
  if (known != nullptr && known->claimed) {
    const auto owned = durable_->Owned(id);
    if (!owned.ok() || *owned) return absl::OkStatus();  // out of reach: a live session goes on
  }
  auto record = durable_->Find(id);
  if (record.ok() && record->owner != owner) return absl::OkStatus();
  if (record.ok() && claim) {
    if (auto status = durable_->Claim(id); !status.ok()) return status;
    record = durable_->Find(id);  // the one before may have written until the claim
  }
  if (!record.ok() && !absl::IsNotFound(record.status())) return record.status();
  EntryPtr next = record.ok() ? FromRecord(*std::move(record), claim) : nullptr;
  const MutexLock lock(&mutex_);
  const EntryPtr now = table_.Find(id);
  if (now != known || (known != nullptr && known->leased)) return absl::OkStatus();
  // The version that another server has made since may have the same number as the one that is
  // lost.
  const int64_t lost = known != nullptr && known->claimed ? known->content->record.version : 0;
  const bool was_saved = known != nullptr && known->persisted_version == lost;
  if (known != nullptr) Drop(*known);
  if (next == nullptr) return absl::OkStatus();  // it was deleted
  Enlist(std::move(next));
  if (lost == 0 || was_saved) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("session_id: another server took over session ", id,
                                         "; version ", lost, ", which was not saved, is lost"));
}

bool Store::Outlived(const SessionEntry& entry, absl::Time now) {
  if (durable_ == nullptr || !durable_->shared()) return false;
  SessionRecord known;
  {
    const MutexLock lock(&mutex_);
    known = entry.Record();
    if (entry.claimed) return false;
  }
  const auto record = durable_->Find(known.id);
  return record.ok() && record->last_used + record->ttl > now;
}

std::vector<SessionRecord> Store::HeldHere() const {
  std::vector<SessionRecord> records;
  const MutexLock lock(&mutex_);
  table_.ForEach([&](const EntryPtr& entry) {
    const bool saved = entry->persisted_version == entry->content->record.version;
    if (shares_storage() && (saved || !entry->claimed)) return;
    records.push_back(entry->Record());
  });
  return records;
}

void Store::Forget(const std::string& id) {
  EntryPtr entry;
  {
    const MutexLock lock(&mutex_);
    entry = table_.Find(id);
  }
  if (entry == nullptr) return;
  const MutexLock saving(&entry->saving);  // what is being stored now comes to an end first
  const MutexLock lock(&mutex_);
  if (!entry->deleted) Drop(*entry);
}

}  // namespace tvq
