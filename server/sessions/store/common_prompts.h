// States of common prompts: in host memory, and on a durable tier of their own.
#ifndef TVQ_SERVER_SESSIONS_STORE_COMMON_PROMPTS_H_
#define TVQ_SERVER_SESSIONS_STORE_COMMON_PROMPTS_H_

#include <memory>

#include "absl/status/status.h"
#include "server/engine/engine.h"
#include "server/sessions/durable/durable_tier.h"
#include "server/sessions/placement/prefix_cache.h"
#include "server/sessions/placement/stored_prefixes.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/record/session_stats.h"
#include "server/sessions/store/context.h"

namespace tvq {

// Open before all else; what follows, but for Stop, is thread-safe.
class CommonPrompts {
 public:
  CommonPrompts(const StoreContext& context, Tiers& tiers) : context_(context), tiers_(tiers) {}

  // `tier`: for these states alone; null: none are stored.
  absl::Status Open(std::unique_ptr<DurableTier> tier);
  // Computes the states of the prompts that all owners share. Blocks.
  absl::Status FeedShared();
  // See SessionStore::UsePrefixes.
  void Use(Request* request);

  // To be called now and then.
  void Sweep();
  // Writes what waits to be written. After Tiers::Stop, and before they are gone.
  void Stop();
  void AddStats(SessionStats& stats) const;

 private:
  const StoreContext& context_;
  Tiers& tiers_;
  // Constant after Open. Null if none are stored, or kept.
  std::unique_ptr<StoredPrefixes> stored_;
  std::shared_ptr<PrefixCache> cache_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_COMMON_PROMPTS_H_
