#include "server/sessions/placement/stored_prefixes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/sessions/record/session_id.h"
#include "server/sessions/snapshot/snapshot.h"

namespace tvq {
namespace {

constexpr int64_t kVersion = 1;
// How old the stored time of the last use may be while a prefix is used.
constexpr absl::Duration kUseInterval = absl::Seconds(10);

// Against what is stored, not the way there.
bool IsWrong(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
         absl::IsOutOfRange(status) || absl::IsDataLoss(status);
}

int64_t BudgetOf(int64_t max_bytes, const DurableTier::Usage& usage) {
  if (!usage.free) return max_bytes;
  const double part = StoredPrefixes::kPartOfFree * static_cast<double>(*usage.free);
  return std::min(max_bytes, usage.bytes + static_cast<int64_t>(part));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoredPrefixes>> StoredPrefixes::Open(Options options) {
  const int64_t budget = BudgetOf(options.max_bytes, options.tier->usage());
  std::unique_ptr<StoredPrefixes> stored(new StoredPrefixes(std::move(options), budget));
  if (auto status = stored->Look(); !status.ok()) return status;
  return stored;
}

StoredPrefixes::StoredPrefixes(Options options, int64_t budget)
    : options_(std::move(options)), budget_(budget) {}

bool StoredPrefixes::IsOver(const Known& known) const {
  return known.used + options_.ttl <= options_.clock();
}

bool StoredPrefixes::Has(const std::string& name) const {
  const MutexLock lock(&mutex_);
  const auto id = id_of_.find(name);
  return id != id_of_.end() && !IsOver(by_id_.at(id->second));
}

std::string StoredPrefixes::IdOf(const std::string& name) const {
  const MutexLock lock(&mutex_);
  const auto id = id_of_.find(name);
  return id != id_of_.end() ? id->second : "";
}

void StoredPrefixes::Enter(const std::string& id, Known known) {
  id_of_[known.name] = id;
  by_id_[id] = std::move(known);
}

void StoredPrefixes::Forget(const std::string& id) {
  const MutexLock lock(&mutex_);
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) return;
  // Two servers may have stored one prefix.
  const auto named = id_of_.find(known->second.name);
  if (named != id_of_.end() && named->second == id) id_of_.erase(named);
  by_id_.erase(known);
}

void StoredPrefixes::Met(const Prefix& prefix, const std::shared_ptr<Checkpoint>& checkpoint) {
  const MutexLock lock(&mutex_);
  if (const auto id = id_of_.find(prefix.name); id != id_of_.end()) {
    by_id_.at(id->second).used = options_.clock();
    return;
  }
  if (writing_.contains(prefix.name)) return;
  if (writing_.size() >= kMostWaiting) {
    ++drops_;
    return;
  }
  writing_.insert(prefix.name);
  // Weak: what leaves memory before its turn is not worth the room.
  const bool waits = writer_.Schedule(
      [this, prefix, weak = std::weak_ptr<Checkpoint>(checkpoint)] { Write(prefix, weak); });
  if (!waits) writing_.erase(prefix.name);
}

void StoredPrefixes::Write(const Prefix& prefix, const std::weak_ptr<Checkpoint>& checkpoint) {
  const auto status = Put(prefix, checkpoint);
  const MutexLock lock(&mutex_);
  writing_.erase(prefix.name);
  ++(status.ok() ? writes_ : drops_);
}

absl::Status StoredPrefixes::Put(const Prefix& prefix, const std::weak_ptr<Checkpoint>& weak) {
  const auto checkpoint = weak.lock();
  if (checkpoint == nullptr) return absl::CancelledError("it left memory");
  const auto image = options_.tiers->Read(checkpoint);
  if (!image.ok()) return image.status();
  const absl::Time now = options_.clock();
  const SnapshotHead head{.record = {.id = NewSessionId(),
                                     .owner = prefix.owner,
                                     .model = prefix.model,
                                     .version = kVersion,
                                     .persisted_version = kVersion,
                                     .position = prefix.position,
                                     .created = now,
                                     .last_used = now,
                                     .creation_key = prefix.name},
                          .version = kVersion,
                          .state_bytes = image->bytes};
  const int64_t bytes = SnapshotHeadBytes(head) + image->bytes;
  if (bytes > budget_) return absl::ResourceExhaustedError("larger than all that may be stored");
  const auto is_full = [&] {
    const MutexLock lock(&mutex_);
    return options_.tier->usage().bytes + bytes > budget_ || by_id_.size() >= kMostPrefixes;
  };
  while (is_full()) {
    if (!EvictOne()) return absl::ResourceExhaustedError("nothing can go");
  }
  absl::Status status;
  do {
    status = options_.tier->Put(head.record, kVersion, bytes, [&](const ByteSink& sink) {
      auto written = WriteSnapshotHead(head, sink);
      return written.ok() ? image->write(sink) : written;
    });
  } while (absl::IsResourceExhausted(status) && EvictOne());
  options_.tier->ForgetClaim(head.record.id);
  if (!status.ok()) return status;
  const MutexLock lock(&mutex_);
  Enter(head.record.id, {.name = prefix.name, .used = now, .stored_use = now});
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Blob>> StoredPrefixes::Load(const std::string& name,
                                                                 int64_t position) {
  const std::string id = IdOf(name);
  if (id.empty()) return absl::NotFoundError("the prefix is not stored any more");
  const auto source = options_.tier->Get(id, kVersion);
  absl::Status status = source.status();
  if (status.ok()) {
    const auto head = ReadSnapshotHead(source->get());
    status = head.status();
    if (head.ok() && (head->record.creation_key != name || head->record.position != position)) {
      status = absl::InvalidArgumentError("is another prefix");
    }
    if (status.ok()) {
      auto image = ReadBlob(**source, head->state_bytes);
      status = image.status();
      if (status.ok()) return image;
    }
  }
  if (absl::IsNotFound(status) || absl::IsAborted(status)) Forget(id);  // another server's doing
  return status;
}

void StoredPrefixes::Refuse(const std::string& name, const absl::Status& why) {
  const std::string id = IdOf(name);
  if (id.empty() || !IsWrong(why)) return;
  Forget(id);
  (void)Remove(id, absl::InfiniteFuture());
  if (options_.on_loss) {
    options_.on_loss(absl::StrCat("a stored prefix is not used, and removed: ", why.message()));
  }
  const MutexLock lock(&mutex_);
  ++refused_;
}

bool StoredPrefixes::Remove(const std::string& id, absl::Time unused_since) {
  const auto removed = options_.tier->DeleteUnused(id, unused_since);
  return removed.ok() && *removed;
}

bool StoredPrefixes::EvictOne() {
  std::string id;
  absl::Time used;
  {
    const MutexLock lock(&mutex_);
    const auto oldest = std::min_element(
        by_id_.begin(), by_id_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    if (oldest == by_id_.end()) return false;
    id = oldest->first;
    used = oldest->second.used;
  }
  const auto removed = options_.tier->DeleteUnused(id, used);
  if (!removed.ok()) return false;
  Forget(id);
  const MutexLock lock(&mutex_);
  evictions_ += *removed ? 1 : 0;  // else another server used it, or removed it: Look finds out
  return true;
}

void StoredPrefixes::RemoveExpired() {
  std::vector<std::string> over;
  {
    const MutexLock lock(&mutex_);
    for (const auto& [id, known] : by_id_) {
      if (IsOver(known)) over.push_back(id);
    }
  }
  for (const std::string& id : over) {
    if (Remove(id, options_.clock() - options_.ttl)) Forget(id);
  }
}

void StoredPrefixes::StoreUses(absl::Duration interval) {
  std::vector<std::pair<std::string, absl::Time>> uses;
  {
    const MutexLock lock(&mutex_);
    for (auto& [id, known] : by_id_) {
      if (known.used <= known.stored_use || known.used - known.stored_use < interval) continue;
      known.stored_use = known.used;
      uses.emplace_back(id, known.used);
    }
  }
  for (const auto& [id, used] : uses) {
    // A claim is a use that no earlier claim forbids.
    const auto status = options_.tier->shared() ? options_.tier->Claim(id, used).status()
                                                : options_.tier->Touch(id, used);
    options_.tier->ForgetClaim(id);
    if (absl::IsNotFound(status)) Forget(id);
  }
}

absl::Status StoredPrefixes::Look() {
  ById found;
  std::vector<std::string> damaged;
  auto status = options_.tier->ForEach([&](const SessionRecord& record) {
    if (absl::IsDataLoss(record.damage)) damaged.push_back(record.id);
    if (!record.damage.ok()) return;
    found[record.id] = {
        .name = record.creation_key, .used = record.last_used, .stored_use = record.last_used};
  });
  if (!status.ok()) return status;
  for (const std::string& id : damaged) (void)Remove(id, absl::InfiniteFuture());
  const MutexLock lock(&mutex_);
  refused_ += std::ssize(damaged);
  by_id_.swap(found);
  id_of_.clear();
  for (auto& [id, known] : by_id_) {
    const auto before = found.find(id);
    if (before != found.end()) known.used = std::max(known.used, before->second.used);
    id_of_[known.name] = id;
  }
  return absl::OkStatus();
}

void StoredPrefixes::Tidy(bool look) {
  if (look && options_.tier->shared()) (void)Look();  // without the tier what is known stays
  StoreUses(kUseInterval);
  RemoveExpired();
  while (options_.tier->usage().bytes > budget_ && EvictOne()) {
  }
  const MutexLock lock(&mutex_);
  tidying_ = false;
}

void StoredPrefixes::Sweep() {
  const MutexLock lock(&mutex_);
  if (tidying_) return;
  tidying_ = writer_.Schedule([this, look = ++sweeps_ % kSweepsPerLook == 0] { Tidy(look); });
}

void StoredPrefixes::Stop() {
  writer_.Stop();
  StoreUses(absl::ZeroDuration());
}

void StoredPrefixes::AddStats(SessionStats& stats) const {
  const DurableTier::Usage usage = options_.tier->usage();
  const MutexLock lock(&mutex_);
  StoredPrefixStats& all = stats.stored_prefixes;
  all.prefixes = std::ssize(by_id_);
  all.bytes = usage.bytes;
  all.budget_bytes = budget_;
  all.writes = writes_;
  all.drops = drops_;
  all.evictions = evictions_;
  all.refused = refused_;
}

}  // namespace tvq
