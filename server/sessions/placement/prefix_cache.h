// States of the beginnings that prompts have in common.
#ifndef TVQ_SERVER_SESSIONS_PLACEMENT_PREFIX_CACHE_H_
#define TVQ_SERVER_SESSIONS_PLACEMENT_PREFIX_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/engine/request/request.h"
#include "server/sessions/placement/recent_prefixes.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/record/session_stats.h"

namespace tvq {

// A prefix is whole chunks from the start of a context, so what follows has the same bits with a
// kept state and without. It is found by a hash of its tokens and then compared token by token. An
// owner finds his own prefixes and those of the operator, whose owner is empty.
//
// Kept are the state at a prompt's last boundary, for a request that is the same or goes on from
// there, and at the deepest boundary up to which a recent prompt of the owner was the same, for
// those that share a long beginning and then differ. The least recently used make room.
// Thread-safe.
class PrefixCache : public std::enable_shared_from_this<PrefixCache> {
 public:
  PrefixCache(std::shared_ptr<Tiers> tiers, int64_t max_bytes)
      : tiers_(std::move(tiers)), max_bytes_(max_bytes) {}

  // Sets start, prefix_marks and prefixes of a request for the model, which has this index.
  void Use(Request& request, size_t index, const Model& model);

  void AddStats(SessionStats& stats) const;

 private:
  class Sink;
  struct Entry {
    std::string owner;
    size_t model = 0;
    uint64_t hash = 0;
    std::vector<int32_t> tokens;
    std::shared_ptr<Checkpoint> checkpoint;
    int64_t bytes = 0;
  };
  using Entries = std::list<Entry>;  // the last was used last

  void Keep(Entry entry);
  // Counts as a use. entries_.end() if there is none.
  Entries::iterator Find(const std::string& owner, size_t model, uint64_t hash,
                         std::span<const int32_t> tokens) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<Tiers> tiers_;
  const int64_t max_bytes_;

  mutable Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  std::unordered_multimap<uint64_t, Entries::iterator> by_hash_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  RecentPrefixes recent_ ABSL_GUARDED_BY(mutex_);
  int64_t hits_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t misses_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_PLACEMENT_PREFIX_CACHE_H_
