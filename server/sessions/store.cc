#include "server/sessions/store.h"

#include <limits>
#include <utility>

#include "absl/time/clock.h"
#include "server/engine/memory_budget.h"

namespace tvq {
namespace {

// Bytes of states in host memory when nobody says how many.
absl::StatusOr<int64_t> DefaultHostBytes() {
  const auto facts = ReadMemoryFacts();
  if (!facts.ok()) return facts.status();
  return DefaultStateBudget(*facts, /*workspace=*/0) / 4;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionStore>> SessionStore::Open(
    Engine* engine, const SessionOptions& options, std::unique_ptr<DurableTier> durable) {
  return Store::Open(engine, options, std::move(durable), [] { return absl::Now(); });
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(Engine* engine, const SessionOptions& options,
                                                   std::unique_ptr<DurableTier> durable,
                                                   Clock clock) {
  SessionOptions known = options;
  if (known.host_bytes == 0) {
    const auto bytes = DefaultHostBytes();
    if (!bytes.ok()) return bytes.status();
    known.host_bytes = *bytes;
  }
  return std::unique_ptr<Store>(
      new Store(engine, known, std::move(durable), std::move(clock), known.host_bytes));
}

Store::Store(Engine* engine, const SessionOptions& options, std::unique_ptr<DurableTier> durable,
             Clock clock, int64_t capacity)
    : engine_(engine),
      options_(options),
      durable_(std::move(durable)),
      clock_(std::move(clock)),
      capacity_(capacity),
      tiers_(Tiers::Create()) {}

Store::~Store() { tiers_->Stop(); }

std::vector<SessionRecord> Store::Records() const {
  std::vector<SessionRecord> records;
  const absl::MutexLock lock(&mutex_);
  table_.ForEach([&](const EntryPtr& entry) { records.push_back(entry->Record()); });
  return records;
}

SessionStats Store::stats() const {
  const absl::MutexLock lock(&mutex_);
  SessionStats stats = totals_;
  table_.ForEach([&](const EntryPtr& entry) {
    stats.leased += entry->leased ? 1 : 0;
    stats.unsaved += entry->persisted_version < entry->content->record.version ? 1 : 0;
  });
  return stats;
}

}  // namespace tvq
