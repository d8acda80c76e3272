// States of the beginnings that prompts have in common.
#ifndef TVQ_SERVER_SESSIONS_PLACEMENT_PREFIX_CACHE_H_
#define TVQ_SERVER_SESSIONS_PLACEMENT_PREFIX_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/engine/request/request.h"
#include "server/sessions/placement/recent_prefixes.h"
#include "server/sessions/placement/stored_prefixes.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/record/session_stats.h"

namespace tvq {

// A prefix is whole chunks from the start of a context, so what follows has the same bits with a
// kept state and without. It is found by a hash of its tokens and then compared token by token. An
// owner finds its own prefixes and those of the operator, whose owner is empty.
//
// The cache keeps the state at a prompt's last boundary, for requests that repeat the prompt or go
// on from there. It also keeps the state at the deepest boundary up to which a recent prompt of the
// owner was the same, for prompts that share a long beginning and then differ. The least recently
// used make room. A kept prefix that is met again is also stored, if there are StoredPrefixes; a
// stored one that is longer than what is kept comes back with the request that begins with it.
// Thread-safe.
class PrefixCache : public std::enable_shared_from_this<PrefixCache> {
 public:
  // `stored` may be null, and must not be used after Stop. `scope`: PrefixNames'.
  PrefixCache(std::shared_ptr<Tiers> tiers, int64_t max_bytes, StoredPrefixes* stored,
              std::string scope)
      : tiers_(std::move(tiers)),
        max_bytes_(max_bytes),
        stored_(stored),
        scope_(std::move(scope)) {}

  // Sets start, prefix_marks and prefixes of a request for the model, which has this index.
  void Use(Request& request, size_t index, const Model& model);

  void AddStats(SessionStats& stats) const;

 private:
  class Sink;
  class StoredSource;
  struct Entry {
    std::string owner;
    size_t model = 0;
    uint64_t hash = 0;
    std::vector<int32_t> tokens;
    std::string name;  // where it is stored
    std::shared_ptr<Checkpoint> checkpoint;
    int64_t bytes = 0;

    int64_t position() const { return std::ssize(tokens); }
  };
  // At which states of a request's prompt are kept.
  struct Mark {
    std::string name;
    bool met = false;  // an earlier prompt began like this, too
  };
  // The beginnings of a prompt, of 1, 2, ... chunks, as an owner has them.
  struct Beginnings {
    std::string owner;
    std::vector<uint64_t> hashes;
    std::vector<std::string> names;  // none if nothing is stored
  };
  struct Place {
    std::shared_ptr<Checkpoint> checkpoint;  // null at position 0
    int64_t position = 0;
  };
  using Entries = std::list<Entry>;  // the last was used last

  Beginnings BeginningsOf(std::string owner, size_t model, const ModelInfo& info,
                          std::span<const int32_t> prompt) const;
  void Keep(Entry entry);
  // A prompt began with the entry, and not the first.
  void Met(const Entry& entry);
  std::shared_ptr<Checkpoint> Kept(const Entry& entry);  // null if it is not
  // These three block.
  absl::StatusOr<std::shared_ptr<Checkpoint>> Load(const Entry& entry);
  absl::Status Copy(const Place& place, HeldState& blank);
  // Makes `blank` the state of an entry that is stored, or of `less` if that cannot be read.
  absl::Status Fill(Entry entry, const Place& less, HeldState& blank);
  // Counts as a use. entries_.end() if there is none.
  Entries::iterator Find(const std::string& owner, size_t model, uint64_t hash,
                         std::span<const int32_t> tokens) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<Tiers> tiers_;
  const int64_t max_bytes_;
  StoredPrefixes* const stored_;
  const std::string scope_;

  mutable Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  std::unordered_multimap<uint64_t, Entries::iterator> by_hash_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  RecentPrefixes recent_ ABSL_GUARDED_BY(mutex_);
  int64_t hits_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t misses_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t stored_hits_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_PLACEMENT_PREFIX_CACHE_H_
