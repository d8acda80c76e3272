#include "server/sessions/store/claims.h"

#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "server/sessions/record/session_id.h"
#include "server/sessions/store/call_checks.h"

namespace tvq {

void Claims::AwaitClaim(const std::string& id) {
  claimed_.Await(&table_.mutex, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(table_.mutex) {
    return !claiming_.contains(id);
  });
}

absl::Status Claims::Refresh(const std::string& owner, const std::string& id, bool claim) {
  if (!context_.shares_storage() || !IsSessionId(id)) return absl::OkStatus();
  EntryPtr known;
  bool of_other_owner = false, foreign = true;
  {
    const MutexLock lock(&table_.mutex);
    AwaitClaim(id);
    known = table_.index.Find(id);
    of_other_owner = known != nullptr && known->content->record.owner != owner;
    if (known != nullptr && !of_other_owner) {
      if (known->leased() && claim) return absl::OkStatus();  // the call hears that it is busy
      foreign = known->foreign();
      // What was never stored, no other server can know.
      if (!foreign && !known->may_be_stored) return absl::OkStatus();
    }
  }
  // Is asked for like any other, so that the answer is the same without the tier.
  if (of_other_owner) {
    const auto status = context_.durable->Find(id).status();
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }
  if (foreign) return Reload(owner, id, known, Standing::kHolds, claim);
  const auto standing = Compare(*known);
  // A live session goes on while the tier is away.
  if (!standing.ok() || *standing == Standing::kHolds) return absl::OkStatus();
  return Reload(owner, id, known, *standing, claim);
}

absl::StatusOr<Claims::Standing> Claims::Compare(SessionEntry& entry) {
  // A version that is being stored at this moment must not look like an unknown one. Nor may its
  // claim look like another server's: the durable tier renews it for a Put whose answer is lost.
  std::optional<MutexLock> saving;
  for (;;) {
    std::string id;
    int64_t persisted = 0;
    {
      const MutexLock lock(&table_.mutex);
      id = entry.content->record.id;
      persisted = entry.persisted_version;
    }
    const auto found = context_.durable->Look(id);
    if (!found.ok()) return found.status();
    if (found->owned && found->version == persisted) return Standing::kHolds;
    if (!saving) {
      saving.emplace(&entry.saving);
      continue;
    }
    if (!found->owned) return Standing::kOvertaken;
    Unstore(entry, persisted);
    const MutexLock lock(&table_.mutex);
    const SessionContent& content = *entry.content;
    if (entry.leased() || found->version == 0) return Standing::kHolds;
    const auto in_memory = [&](const Version& version) {
      return version.loaded &&
             (version.checkpoint == nullptr || tiers_.Where(*version.checkpoint) != Tier::kDurable);
    };
    // A call that failed as far as its client knows may have been stored, and what it dropped be
    // gone. What is in memory is stored anew.
    bool whole = in_memory(content.present);
    for (const KeptMark& mark : content.marks) {
      if (found->version > content.record.version) whole = whole && in_memory(mark.kept);
    }
    return whole ? Standing::kHolds : Standing::kMoved;
  }
}

absl::Status Claims::Reload(const std::string& owner, const std::string& id, const EntryPtr& known,
                            Standing standing, bool claim) {
  const auto leased = [&] {  // by a call that will find out
    return standing == Standing::kOvertaken && !claim ? Overtaken(id) : absl::OkStatus();
  };
  {
    const MutexLock lock(&table_.mutex);
    AwaitClaim(id);
    if (table_.index.Find(id) != known) return absl::OkStatus();
    if (known != nullptr && known->leased()) return leased();
    if (claim) claiming_.insert(id);
    // With the new claim what is known so far may not be written.
    if (claim && known != nullptr) table_.Take(*known);
  }
  const absl::Cleanup done = [&] {
    if (!claim) return;
    if (known != nullptr) table_.GiveBack(*known);
    const MutexLock lock(&table_.mutex);
    claiming_.erase(id);
    claimed_.Notify();
  };
  std::optional<MutexLock> saving;
  if (claim && known != nullptr) saving.emplace(&known->saving);
  auto record = context_.durable->Find(id);
  if (record.ok() && record->owner != owner) return absl::OkStatus();
  if (record.ok() && claim) record = context_.durable->Claim(id, context_.clock());
  if (!record.ok() && !absl::IsNotFound(record.status())) return record.status();
  const EntryState state = claim ? EntryState::kIdle : EntryState::kForeign;
  EntryPtr next = record.ok() ? loader_.FromRecord(*std::move(record), state) : nullptr;
  if (!claim) {
    return Replace(id, known, std::move(next), standing) ? absl::OkStatus() : leased();
  }
  ReplaceTaken(id, known, std::move(next), standing);
  return absl::OkStatus();
}

bool Claims::Replace(const std::string& id, const EntryPtr& known, EntryPtr next,
                     Standing standing) {
  std::string loss;
  {
    const MutexLock lock(&table_.mutex);
    AwaitClaim(id);
    if (known != nullptr && known->leased()) return false;
    loss = Exchange(id, known, std::move(next), standing);
  }
  Tell(loss);
  return true;
}

void Claims::ReplaceTaken(const std::string& id, const EntryPtr& known, EntryPtr next,
                          Standing standing) {
  std::string loss;
  {
    const MutexLock lock(&table_.mutex);
    loss = Exchange(id, known, std::move(next), standing);
  }
  Tell(loss);
}

std::string Claims::Exchange(const std::string& id, const EntryPtr& known, EntryPtr next,
                             Standing standing) {
  std::string told, loss;
  if (known == nullptr) {
    if (next != nullptr && table_.index.Find(id) == nullptr) table_.Enlist(std::move(next));
    return loss;
  }
  if (known->gone()) return loss;
  const SessionRecord& record = known->content->record;
  const int64_t stored = next != nullptr ? next->persisted_version : 0;
  const std::string session = absl::StrCat("session ", id);
  const bool foreign = known->foreign();
  told = known->lost;
  if (standing == Standing::kMoved && stored > record.version) {
    told =
        absl::StrCat(session, ": version ", stored, ", whose call failed, was stored all the same");
  } else if (standing == Standing::kMoved) {
    loss = absl::StrCat(session, ": the durable tier lost version ", record.version,
                        "; the newest it has is ", stored);
  } else if (!foreign && !known->saved()) {
    // The version that is stored may have the same number as the one that is lost.
    loss = absl::StrCat("another server took over ", session, "; version ", record.version,
                        ", which was not saved, is lost");
  }
  if (!loss.empty()) {
    told = loss;
    ++table_.totals.lost;
  }
  table_.Drop(*known);
  if (next == nullptr) {
    if (foreign) context_.durable->ForgetClaim(id);
    return loss;
  }
  if (!told.empty()) next->lost = absl::StrCat("session_id: ", told);
  table_.Enlist(std::move(next));
  return loss;
}

void Claims::Tell(const std::string& loss) const {
  if (!loss.empty() && context_.options.on_loss) context_.options.on_loss(loss);
}

void Claims::GiveUpIfOvertaken(SessionEntry& entry) {
  if (!context_.shares_storage()) return;
  EntryPtr known;
  std::string id;
  {
    const MutexLock lock(&table_.mutex);
    id = entry.content->record.id;
    known = table_.index.Find(id);
    if (known.get() != &entry || entry.leased()) return;  // the next call finds out
  }
  const auto found = context_.durable->Look(id);
  if (!found.ok() || found->owned) return;
  auto record = context_.durable->Find(id);
  if (!record.ok() && !absl::IsNotFound(record.status())) return;
  EntryPtr next =
      record.ok() ? loader_.FromRecord(*std::move(record), EntryState::kForeign) : nullptr;
  {
    const MutexLock lock(&table_.mutex);
    if (entry.leased() || entry.gone()) return;
    table_.Take(entry);
  }
  ReplaceTaken(id, known, std::move(next), Standing::kOvertaken);
  table_.GiveBack(entry);
}

void Claims::Unstore(SessionEntry& entry, int64_t persisted_version) {
  const MutexLock lock(&table_.mutex);
  if (entry.persisted_version != persisted_version) return;
  table_.SetPersisted(entry, 0);
  entry.stored_use = absl::InfinitePast();
  const SessionContent& content = *entry.content;
  const auto unstore = [&](const Version& version, int64_t number) {
    // What is not loaded is there or lost: it cannot be stored anew.
    if (version.checkpoint == nullptr || !version.loaded) return;
    tiers_.SetStored(*version.checkpoint, {content.record.id, number}, /*stored=*/false);
  };
  unstore(content.present, content.record.version);
  for (const KeptMark& mark : content.marks) {
    if (mark.record.version != content.record.version) unstore(mark.kept, mark.record.version);
  }
}

}  // namespace tvq
