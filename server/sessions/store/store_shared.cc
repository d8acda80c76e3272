// A durable tier that other servers use too.
#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/sessions/record/session_id.h"
#include "server/sessions/store/store.h"

namespace tvq {
namespace {

// Reading all records may take a tenth of the time.
constexpr int kLearningShare = 9;

}  // namespace

absl::Status Store::Overtaken(const std::string& id) {
  return Refused(Reason::kSessionMoved, "session_id",
                 absl::StrCat("another server took over session ", id, "; try again"));
}

void Store::AwaitClaim(const std::string& id) {
  claimed_.Await(&mutex_,
                 [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !claiming_.contains(id); });
}

absl::Status Store::Refresh(const std::string& owner, const std::string& id, bool claim) {
  if (!shares_storage() || !IsSessionId(id)) return absl::OkStatus();
  EntryPtr known;
  bool foreign = false;
  {
    const MutexLock lock(&mutex_);
    AwaitClaim(id);
    known = table_.Find(id);
    foreign = known != nullptr && known->content->record.owner != owner;
    if (known != nullptr && !foreign) {
      if (known->leased && claim) return absl::OkStatus();  // the call hears that it is busy
      // What was never stored, no other server can know.
      if (known->claimed && !known->may_be_stored) return absl::OkStatus();
    }
  }
  if (foreign) {  // is asked for like any other, so that the answer is the same without the tier
    const auto status = durable_->Find(id).status();
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }
  if (known == nullptr || !known->claimed) return Reload(owner, id, known, Held::kYes, claim);
  const auto held = Compare(*known);
  if (!held.ok() || *held == Held::kYes) return absl::OkStatus();  // a live session goes on
  return Reload(owner, id, known, *held, claim);
}

absl::Status Store::FindMade(const SessionRecord& wanted) {
  if (!shares_storage() || wanted.creation_key.empty()) return absl::OkStatus();
  const auto ids = durable_->CreatedBy(wanted);
  if (absl::IsUnavailable(ids.status())) return absl::OkStatus();  // sessions in memory go on
  if (!ids.ok()) return ids.status();
  std::set<std::string> doubtful(ids->begin(), ids->end());
  {
    const MutexLock lock(&mutex_);
    for (const EntryPtr& entry :
         table_.CreatedBy(wanted.owner, wanted.parent_id, wanted.creation_key)) {
      if (!entry->claimed) doubtful.insert(entry->content->record.id);  // may be gone since
    }
  }
  for (const std::string& id : doubtful) {
    if (auto status = Refresh(wanted.owner, id, /*claim=*/false); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void Store::Learn(const std::string& id, std::optional<SessionRecord> record) {
  EntryPtr known;
  std::string owner;
  {
    const MutexLock lock(&mutex_);
    known = table_.Find(id);
    if (known == nullptr && (!record || dropped_.contains(id))) return;
    if (known != nullptr) {
      if (known->leased) return;  // its call knows better
      owner = known->content->record.owner;
      const int64_t version = record ? record->version : 0;
      if (!known->claimed && record && version <= known->persisted_version) {
        if (version == known->persisted_version) table_.Touch(*known, record->last_used);
        return;
      }
      if (known->claimed && version == known->persisted_version) return;
    }
  }
  if (known != nullptr && known->claimed) {
    (void)Refresh(owner, id, /*claim=*/false);  // it sees whether the claim holds
    return;
  }
  EntryPtr next = record ? FromRecord(*std::move(record), /*claimed=*/false) : nullptr;
  Replace(id, known, std::move(next), Held::kYes, /*alone=*/false);
}

absl::Status Store::LearnStored() {
  if (!shares_storage()) return absl::OkStatus();
  const auto began = std::chrono::steady_clock::now();
  std::vector<ContentPtr> stored;
  {
    const MutexLock lock(&mutex_);
    if (learning_ || began < learn_again_) return absl::OkStatus();
    learning_ = true;
    stored.reserve(static_cast<size_t>(table_.size()));
    table_.ForEach([&](const EntryPtr& entry) {
      if (entry->persisted_version > 0) stored.push_back(entry->content);
    });
  }
  std::set<std::string> unseen;
  for (const ContentPtr& content : stored) unseen.insert(content->record.id);
  std::vector<SessionRecord> records;
  const auto status =
      durable_->ForEach([&](SessionRecord record) { records.push_back(std::move(record)); });
  if (status.ok()) {
    for (SessionRecord& record : records) {
      const std::string id = record.id;
      unseen.erase(id);
      Learn(id, std::move(record));
    }
    for (const std::string& id : unseen) Learn(id, std::nullopt);
  }
  const auto now = std::chrono::steady_clock::now();
  const MutexLock lock(&mutex_);
  learning_ = false;
  learn_again_ = now + kLearningShare * (now - began);
  dropped_.clear();
  return absl::IsUnavailable(status) ? absl::OkStatus() : status;
}

absl::StatusOr<Store::Held> Store::Compare(SessionEntry& entry) {
  // What is being stored at this moment must not look like something that is not known, nor its
  // claim, which the durable tier renews for a Put whose answer is lost, like another server's.
  std::optional<MutexLock> saving;
  for (;;) {
    std::string id;
    int64_t persisted = 0;
    {
      const MutexLock lock(&mutex_);
      id = entry.content->record.id;
      persisted = entry.persisted_version;
    }
    const auto standing = durable_->Look(id);
    if (!standing.ok()) return standing.status();
    if (standing->owned && standing->version == persisted) return Held::kYes;
    if (!saving) {
      saving.emplace(&entry.saving);
      continue;
    }
    if (!standing->owned) return Held::kOvertaken;
    Unstore(entry, persisted);
    const MutexLock lock(&mutex_);
    const SessionContent& content = *entry.content;
    if (entry.leased || standing->version == 0) return Held::kYes;
    const auto in_memory = [&](const Moment& moment) {
      return moment.loaded &&
             (moment.checkpoint == nullptr || tiers_->Where(*moment.checkpoint) != Tier::kDurable);
    };
    // A call that failed as far as its client knows may have been stored, and what it dropped be
    // gone. What is in memory is stored anew.
    bool whole = in_memory(content.present);
    for (const KeptMark& mark : content.marks) {
      if (standing->version > content.record.version) whole = whole && in_memory(mark.moment);
    }
    return whole ? Held::kYes : Held::kMoved;
  }
}

absl::Status Store::Reload(const std::string& owner, const std::string& id, const EntryPtr& known,
                           Held held, bool claim) {
  const auto leased = [&] {  // by a call that will find out
    return held == Held::kOvertaken && !claim ? Overtaken(id) : absl::OkStatus();
  };
  {
    const MutexLock lock(&mutex_);
    AwaitClaim(id);
    if (table_.Find(id) != known) return absl::OkStatus();
    if (known != nullptr && known->leased) return leased();
    if (claim) claiming_.insert(id);
    // With the new claim what is known so far may not be written.
    if (claim && known != nullptr) {
      const Recount recount(this, *known);
      known->leased = true;
    }
  }
  const absl::Cleanup done = [&] {
    if (!claim) return;
    if (known != nullptr) Release(*known);
    const MutexLock lock(&mutex_);
    claiming_.erase(id);
    claimed_.Notify();
  };
  std::optional<MutexLock> saving;
  if (claim && known != nullptr) saving.emplace(&known->saving);
  auto record = durable_->Find(id);
  if (record.ok() && record->owner != owner) return absl::OkStatus();
  if (record.ok() && claim) record = durable_->Claim(id, clock_());
  if (!record.ok() && !absl::IsNotFound(record.status())) return record.status();
  EntryPtr next = record.ok() ? FromRecord(*std::move(record), claim) : nullptr;
  return Replace(id, known, std::move(next), held, claim) ? absl::OkStatus() : leased();
}

bool Store::Replace(const std::string& id, const EntryPtr& known, EntryPtr next, Held held,
                    bool alone) {
  std::string loss;
  {
    const MutexLock lock(&mutex_);
    if (!alone) {
      AwaitClaim(id);
      if (known != nullptr && known->leased) return false;
    }
    std::string told;
    if (known != nullptr) {
      if (known->deleted) return true;
      const SessionRecord& record = known->content->record;
      const int64_t stored = next != nullptr ? next->persisted_version : 0;
      const std::string session = absl::StrCat("session ", id);
      told = known->lost;
      if (held == Held::kMoved && stored > record.version) {
        told = absl::StrCat(session, ": version ", stored,
                            ", whose call failed, was stored all the same");
      } else if (held == Held::kMoved) {
        loss = absl::StrCat(session, ": the durable tier lost version ", record.version,
                            "; the newest it has is ", stored);
      } else if (known->claimed && known->persisted_version != record.version) {
        // The version that is stored may have the same number as the one that is lost.
        loss = absl::StrCat("another server took over ", session, "; version ", record.version,
                            ", which was not saved, is lost");
      }
      if (!loss.empty()) {
        told = loss;
        ++totals_.lost;
      }
      Drop(*known);
      if (next == nullptr && !known->claimed) durable_->ForgetClaim(id);
    } else if (next == nullptr || table_.Find(id) != nullptr) {
      return true;
    }
    if (next != nullptr) {
      if (!told.empty()) next->lost = absl::StrCat("session_id: ", told);
      Enlist(std::move(next));
    }
  }
  if (!loss.empty() && options_.on_loss) options_.on_loss(loss);
  return true;
}

void Store::GiveUpIfOvertaken(SessionEntry& entry) {
  if (!shares_storage()) return;
  EntryPtr known;
  std::string id;
  {
    const MutexLock lock(&mutex_);
    id = entry.content->record.id;
    known = table_.Find(id);
    if (known.get() != &entry || entry.leased) return;  // the next call finds out
  }
  const auto standing = durable_->Look(id);
  if (!standing.ok() || standing->owned) return;
  auto record = durable_->Find(id);
  if (!record.ok() && !absl::IsNotFound(record.status())) return;
  EntryPtr next = record.ok() ? FromRecord(*std::move(record), /*claimed=*/false) : nullptr;
  {
    const MutexLock lock(&mutex_);
    if (entry.leased) return;
    const Recount recount(this, entry);
    entry.leased = true;
  }
  Replace(id, known, std::move(next), Held::kOvertaken, /*alone=*/true);
  Release(entry);
}

void Store::Unstore(SessionEntry& entry, int64_t persisted_version) {
  const MutexLock lock(&mutex_);
  if (entry.persisted_version != persisted_version) return;
  const Recount recount(this, entry);
  entry.persisted_version = 0;
  entry.stored_use = absl::InfinitePast();
  const SessionContent& content = *entry.content;
  const auto unstore = [&](const Moment& moment, int64_t version) {
    // What is not loaded is there or lost: it cannot be stored anew.
    if (moment.checkpoint == nullptr || !moment.loaded) return;
    tiers_->SetStored(*moment.checkpoint, {content.record.id, version}, /*stored=*/false);
  };
  unstore(content.present, content.record.version);
  for (const KeptMark& mark : content.marks) {
    if (mark.record.version != content.record.version) unstore(mark.moment, mark.record.version);
  }
}

void Store::CheckInstance() {
  if (!shares_storage()) return;
  const auto name = durable_->Instance();
  if (!name.ok()) return;
  std::vector<std::pair<EntryPtr, int64_t>> stored;
  {
    const MutexLock lock(&mutex_);
    const std::string before = std::exchange(instance_, *name);
    if (before.empty() || before == instance_) return;
    table_.ForEach([&](const EntryPtr& entry) {
      if (entry->claimed && entry->persisted_version > 0) {
        stored.emplace_back(entry, entry->persisted_version);
      }
    });
  }
  for (const auto& [entry, version] : stored) Unstore(*entry, version);
  if (options_.on_loss) {
    options_.on_loss(absl::StrCat("the durable tier lost its data; ", stored.size(),
                                  " sessions of this server are not saved any more"));
  }
}

}  // namespace tvq
