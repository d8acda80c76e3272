#include "server/sessions/store/sweeper.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "server/sessions/store/leases.h"

namespace tvq {
namespace {

// Sessions per second that a sweep goes to the durable tier for.
constexpr size_t kAtOnce = 256;
// Those that it looks at; of these all end that only memory has.
constexpr int64_t kMostLooks = 100'000;
// Of them, while others wait for the mutex.
constexpr int64_t kLooksAtOnce = 1000;

// How old the stored time of a session's last use may be while it is used.
absl::Duration UseInterval(absl::Duration ttl) { return std::min(ttl / 4, absl::Minutes(1)); }

// A server that does not own a session waits for so much longer: until the owner has stored the
// last use, however their clocks differ.
absl::Duration Grace(absl::Duration ttl) { return UseInterval(ttl) + absl::Seconds(10); }

bool IsOver(const SessionEntry& entry, absl::Time now) {
  const absl::Duration ttl = entry.content->record.ttl;
  if (entry.leased() || ttl == absl::InfiniteDuration()) return false;
  const absl::Time end = entry.last_used + ttl;
  return entry.foreign() ? end + Grace(ttl) <= now : end <= now;
}

}  // namespace

void Sweeper::SaveUses() {
  if (!context_.shares_storage()) return;
  std::vector<std::pair<EntryPtr, absl::Time>> used;
  const absl::Time now = context_.clock();
  {
    const MutexLock lock(&table_.mutex);
    table_.index.ForEach([&](const EntryPtr& entry) {
      const absl::Duration ttl = entry->content->record.ttl;
      if (used.size() == kAtOnce || entry->foreign() || entry->persisted_version == 0) return;
      const absl::Time last = entry->leased() ? now : entry->last_used;  // a long call is a use
      if (ttl == absl::InfiniteDuration() || last - entry->stored_use < UseInterval(ttl)) return;
      used.emplace_back(entry, last);
    });
  }
  for (const auto& [entry, last] : used) {
    if (context_.stopping) return;
    if (absl::IsUnavailable(saver_.SaveUse(*entry, last))) return;
  }
}

absl::StatusOr<bool> Sweeper::ExpireForeign(SessionEntry& entry, absl::Time now) {
  const SessionRecord& known = entry.content->record;  // leased, so it stays
  const absl::Duration left = known.ttl + Grace(known.ttl);
  const auto deleted = context_.durable->DeleteUnused(known.id, now - left);
  if (!deleted.ok()) return deleted.status();
  const auto record = context_.durable->Find(known.id);
  const MutexLock lock(&table_.mutex);
  if (absl::IsNotFound(record.status())) {
    table_.Drop(entry);
    context_.durable->ForgetClaim(known.id);
  } else if (record.ok()) {
    table_.index.Touch(entry, record->last_used);
  }
  return *deleted;
}

absl::StatusOr<bool> Sweeper::Expire(const EntryPtr& entry, absl::Time now) {
  bool foreign = false;
  {
    const MutexLock lock(&table_.mutex);
    if (entry->gone() || !IsOver(*entry, now)) return false;
    foreign = entry->foreign();
    table_.Take(*entry);
  }
  absl::Status status;
  {
    const EntryLease lease(table_, entry);
    if (foreign) return ExpireForeign(*entry, now);
    status = saver_.Remove(*entry);
  }
  if (absl::IsAborted(status)) {
    const MutexLock saving(&entry->saving);
    claims_.GiveUpIfOvertaken(*entry);
  }
  if (!status.ok()) return status;
  return true;
}

int64_t Sweeper::DeleteExpired() {
  const absl::Time now = context_.clock();
  int64_t deleted = 0;
  size_t stored = 0;  // of those that were over, where the durable tier is asked
  int64_t shown = kLooksAtOnce;
  bool begun = false, wrapped = false, around = false;
  SessionIndex::End first;
  for (int64_t looks = 0; looks < kMostLooks && shown == kLooksAtOnce && !around; looks += shown) {
    std::vector<EntryPtr> over;
    {
      const MutexLock lock(&table_.mutex);
      if (!begun) first = swept_;
      begun = true;
      const SessionIndex::End before = swept_;
      // Others each time, so that what cannot be deleted does not keep the rest waiting.
      shown = table_.index.VisitEnded(now, kLooksAtOnce, &swept_, [&](const EntryPtr& entry) {
        if (!IsOver(*entry, now)) return true;
        over.push_back(entry);
        if (entry->may_be_stored || entry->foreign()) ++stored;
        return stored < kAtOnce;
      });
      // Those that are past their end and stay are looked at once.
      wrapped = wrapped || swept_ <= before;
      around = wrapped && swept_ >= first;
    }
    for (const EntryPtr& entry : over) {
      if (context_.stopping) return deleted;
      const auto expired = Expire(entry, now);
      // A tier elsewhere is away. On a disk it may be the files of this one that are in trouble.
      if (context_.shares_storage() && absl::IsUnavailable(expired.status())) return deleted;
      if (!expired.ok() || !*expired) continue;
      ++deleted;
      const MutexLock lock(&table_.mutex);
      ++table_.totals.expired;
    }
    if (stored >= kAtOnce) break;
  }
  return deleted;
}

}  // namespace tvq
