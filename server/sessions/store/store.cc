#include "server/sessions/store/store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/refusal.h"
#include "server/sessions/snapshot/state_image.h"
#include "server/sessions/store/session_lease.h"

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

// The largest image that is assumed for versions that are replaced. States that grow are mostly far
// from their longest: with that the tier would have no room left.
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
  std::vector<int64_t> empty_bytes;
  int64_t largest = 0;
  for (const ServedModel& served : engine->models()) {
    const auto bound = LargestStateImage(*served.model);
    if (!bound.ok()) return bound.status();
    if (auto status = CheckHostBytes(options, served.name, *bound); !status.ok()) return status;
    empty_bytes.push_back(*bound);
    largest = std::max(largest, LargestOf(*served.model, *bound, durable.get()));
  }
  const int64_t capacity = CapacityOf(options, durable.get(), largest);
  std::unique_ptr<Store> store(new Store(engine, options, std::move(durable), std::move(clock),
                                         capacity, std::move(empty_bytes)));
  if (auto status = store->loader_.LoadStored(); !status.ok()) return status;
  if (auto status = store->common_prompts_.Open(std::move(prefixes)); !status.ok()) return status;
  store->ticker_.emplace(kTick, [s = store.get(), ticks = 0]() mutable {
    s->tiers_->Retry();
    if (++ticks % kTicksPerSweep != 0) return;
    s->neighbours_.CheckInstance();
    s->sweeper_.SaveUses();
    s->sweeper_.DeleteExpired();
    s->loader_.UnloadParked();
    s->saver_.SaveOwed();
    s->common_prompts_.Sweep();
  });
  if (auto status = store->common_prompts_.FeedShared(); !status.ok()) return status;
  return store;
}

Store::Store(Engine* engine, const SessionOptions& options, std::unique_ptr<DurableTier> durable,
             Clock clock, int64_t capacity, std::vector<int64_t> empty_bytes)
    : context_{.engine = engine,
               .options = options,
               .durable = std::move(durable),
               .clock = std::move(clock)},
      places_(context_, std::move(empty_bytes), capacity),
      tiers_(Tiers::Create({.engine = engine,
                            .host_bytes = options.host_bytes,
                            .durable = context_.durable.get(),
                            .persist = [this](const std::string& id) { return saver_.Save(id); }})),
      common_prompts_(context_, *tiers_),
      table_(context_, places_, *tiers_),
      loader_(context_, places_, *tiers_, table_),
      claims_(context_, *tiers_, table_, loader_),
      neighbours_(context_, table_, loader_, claims_),
      saver_(context_, *tiers_, table_, loader_, claims_),
      leases_(context_, table_, loader_, claims_, saver_),
      commits_(context_, places_, *tiers_, table_, saver_),
      maker_(context_, places_, *tiers_, table_, saver_, neighbours_, commits_),
      tree_(context_, places_, table_, loader_, claims_, leases_, commits_, maker_),
      reader_(table_, loader_, claims_, neighbours_),
      transfers_(context_, places_, *tiers_, loader_, reader_, maker_),
      sweeper_(context_, table_, claims_, saver_) {}

Store::~Store() {
  context_.stopping = true;
  ticker_.reset();
  tiers_->Stop();
  common_prompts_.Stop();  // while what waits is in memory
}

absl::StatusOr<SessionView> Store::Save(const SessionCall& call) {
  if (context_.durable == nullptr) {
    return Refused(
        Reason::kDurabilityMissing,
        "the server keeps sessions in memory alone, so that none can be saved: it must be started "
        "with --session-dir or --redis; until then an export keeps a session elsewhere");
  }
  for (bool again = false;; again = true) {
    const auto begun = leases_.Begin(call, CallKind::kSave);
    if (!begun.ok()) return begun.status();
    const auto status = saver_.SaveLeased(*begun->entry);
    // The call began out of touch with the tier and has found out that another server has the
    // session. Beginning once more tells what was lost by that, so that no later call has to.
    if (absl::IsAborted(status) && !again) continue;
    if (!status.ok()) return status;
    const MutexLock lock(&table_.mutex);
    return table_.View(*begun->entry);
  }
}

absl::Status Store::Delete(const SessionCall& call) {
  auto begun = leases_.Begin(call, CallKind::kDelete);
  if (!begun.ok()) return begun.status();
  if (auto status = saver_.Remove(*begun->entry); !status.ok()) return status;
  const MutexLock lock(&table_.mutex);
  ++table_.totals.deleted;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Lease>> Store::Acquire(const SessionCall& call) {
  auto begun = leases_.Begin(call, CallKind::kCompute);
  if (!begun.ok()) return begun.status();
  if (begun->reply) begun->lease.reset();
  SessionRecord record;
  {
    const MutexLock lock(&table_.mutex);
    record = begun->entry->Record();
  }
  const SessionLease::Parts parts{context_, places_, *tiers_, loader_, commits_};
  return std::make_unique<SessionLease>(parts, call, *std::move(begun), std::move(record));
}

std::vector<SessionRecord> Store::Records() const {
  std::vector<SessionRecord> records;
  const MutexLock lock(&table_.mutex);
  table_.index.ForEach([&](const EntryPtr& entry) { records.push_back(entry->Record()); });
  return records;
}

SessionStats Store::stats() const {
  SessionStats stats;
  {
    const MutexLock lock(&table_.mutex);
    stats = table_.totals;
  }
  tiers_->AddStats(stats);
  common_prompts_.AddStats(stats);
  if (context_.durable != nullptr) {
    const DurableTier::Usage usage = context_.durable->usage();
    stats.durable.state_bytes = usage.bytes;
    stats.durable.budget_bytes = usage.budget;
    stats.corrupt += usage.corrupt;
  }
  return stats;
}

}  // namespace tvq
