#include "server/sessions/store/store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/sessions/snapshot/state_image.h"

namespace tvq {
namespace {

constexpr std::chrono::milliseconds kTick{200};
constexpr int kTicksPerSweep = 5;
// Versions that the durable tier may hold twice for a moment, while one takes the other's place.
constexpr int64_t kReplacedAtOnce = 4;
// A state that grows is not counted as more than this part of the tier there.
constexpr int64_t kGrownPart = 16;

// A state leaves the device by way of host memory, where prefixes lie too.
absl::Status CheckHostBytes(const SessionOptions& options, const std::string& model,
                            int64_t state_bytes) {
  if (options.host_bytes - options.prefix_bytes >= state_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--session-host-bytes: is ", options.host_bytes, ", must be at least ",
      options.prefix_bytes + state_bytes, ": --prefix-cache-bytes, which is ", options.prefix_bytes,
      ", and a state of model \"", model, "\", which takes up to ", state_bytes));
}

int64_t CapacityOf(const SessionOptions& options, const DurableTier* durable, int64_t largest) {
  const int64_t host = options.host_bytes - options.prefix_bytes;
  if (durable == nullptr) return host;
  const int64_t budget = durable->usage().budget;
  if (budget == 0) return std::numeric_limits<int64_t>::max() / 2;
  return host + std::max<int64_t>(0, budget - kReplacedAtOnce * largest);
}

// Of an image, for those that are replaced. States that grow are mostly far from their longest, and
// would take all of the tier.
int64_t LargestOf(const Model& model, int64_t empty, const DurableTier* durable) {
  if (!model.StatesGrow() || durable == nullptr) return empty;
  const int64_t growth = model.LargestStateBytes() - model.StateBytes(0);
  return std::max(empty, std::min(empty + growth, durable->usage().budget / kGrownPart));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionStore>> SessionStore::Open(
    Engine* engine, const SessionOptions& options, std::unique_ptr<DurableTier> durable,
    std::unique_ptr<DurableTier> prefixes) {
  return Store::Open(
      engine, options, std::move(durable), [] { return absl::Now(); }, std::move(prefixes));
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(Engine* engine, const SessionOptions& options,
                                                   std::unique_ptr<DurableTier> durable,
                                                   Clock clock,
                                                   std::unique_ptr<DurableTier> prefixes) {
  std::vector<int64_t> place_bytes;
  int64_t largest = 0;
  for (const ServedModel& served : engine->models()) {
    const auto bound = LargestStateImage(*served.model);
    if (!bound.ok()) return bound.status();
    if (auto status = CheckHostBytes(options, served.name, *bound); !status.ok()) return status;
    place_bytes.push_back(*bound);
    largest = std::max(largest, LargestOf(*served.model, *bound, durable.get()));
  }
  const int64_t capacity = CapacityOf(options, durable.get(), largest);
  std::unique_ptr<Store> store(new Store(engine, options, std::move(durable), std::move(clock),
                                         capacity, std::move(place_bytes)));
  if (auto status = store->LoadStored(); !status.ok()) return status;
  if (auto status = store->OpenPrefixes(std::move(prefixes)); !status.ok()) return status;
  store->ticker_.emplace(kTick, [s = store.get(), ticks = 0]() mutable {
    s->tiers_->Retry();
    if (++ticks % kTicksPerSweep != 0) return;
    s->CheckInstance();
    s->StoreUses();
    s->DeleteExpired();
    s->UnloadParked();
    s->StoreOwed();
    if (s->stored_prefixes_ != nullptr) s->stored_prefixes_->Sweep();
  });
  if (auto status = store->FeedSharedPrompts(); !status.ok()) return status;
  return store;
}

Store::Store(Engine* engine, const SessionOptions& options, std::unique_ptr<DurableTier> durable,
             Clock clock, int64_t capacity, std::vector<int64_t> place_bytes)
    : engine_(engine),
      options_(options),
      durable_(std::move(durable)),
      clock_(std::move(clock)),
      place_bytes_(std::move(place_bytes)),
      capacity_(capacity, options.max_bytes_per_owner, std::ranges::max(place_bytes_)),
      tiers_(Tiers::Create({.engine = engine,
                            .host_bytes = options.host_bytes,
                            .durable = durable_.get(),
                            .persist = [this](const std::string& id) { return Persist(id); }})) {}

Store::~Store() {
  stopping_ = true;
  ticker_.reset();
  tiers_->Stop();
  if (stored_prefixes_ != nullptr) stored_prefixes_->Stop();  // while what waits is in memory
}

std::vector<SessionRecord> Store::Records() const {
  std::vector<SessionRecord> records;
  const MutexLock lock(&mutex_);
  table_.ForEach([&](const EntryPtr& entry) { records.push_back(entry->Record()); });
  return records;
}

SessionStats Store::stats() const {
  SessionStats stats;
  {
    const MutexLock lock(&mutex_);
    stats = totals_;
  }
  tiers_->AddStats(stats);
  if (prefixes_ != nullptr) prefixes_->AddStats(stats);
  if (stored_prefixes_ != nullptr) stored_prefixes_->AddStats(stats);
  if (durable_ != nullptr) {
    const DurableTier::Usage usage = durable_->usage();
    stats.durable.state_bytes = usage.bytes;
    stats.durable.budget_bytes = usage.budget;
    stats.corrupt += usage.corrupt;
  }
  return stats;
}

}  // namespace tvq
