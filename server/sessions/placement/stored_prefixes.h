// States of common prompts on the durable tier.
#ifndef TVQ_SERVER_SESSIONS_PLACEMENT_STORED_PREFIXES_H_
#define TVQ_SERVER_SESSIONS_PLACEMENT_STORED_PREFIXES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/task_threads.h"
#include "server/sessions/durable/durable_tier.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/record/session_stats.h"
#include "server/sessions/snapshot/blob.h"
#include "server/sessions/snapshot/checkpoint.h"

namespace tvq {

// A prefix is stored as the only version of a session that no call reaches: in a tier of its own,
// with a random id, and with its name (PrefixNames) as the creation_key. A thread writes what it is
// given, one after the other, and makes room for it: what was not used for longest goes, whichever
// server stored it. What that thread does not get to is dropped. Thread-safe.
class StoredPrefixes {
 public:
  struct Options {
    std::shared_ptr<Tiers> tiers;
    std::unique_ptr<DurableTier> tier;  // of prefixes alone
    int64_t max_bytes = 0;              // kPartOfFree of what is free there if it is less
    absl::Duration ttl = absl::InfiniteDuration();  // of wall time without use
    std::function<absl::Time()> clock;
    std::function<void(const std::string& message)> on_loss;  // may be empty
  };
  struct Prefix {
    std::string name;
    std::string owner;
    std::string model;  // the served name
    int64_t position = 0;
  };

  // Of what is free on the durable tier: sessions may take the rest.
  static constexpr double kPartOfFree = 0.1;
  static constexpr size_t kMostWaiting = 4;
  static constexpr size_t kMostPrefixes = 4096;  // so that shared ones can be looked through

  // Finds what is stored. Blocks.
  static absl::StatusOr<std::unique_ptr<StoredPrefixes>> Open(Options options);
  ~StoredPrefixes() { Stop(); }

  // Without the tier: of a shared one, as it was at most kSweepsPerLook sweeps ago.
  bool Has(const std::string& name) const;
  // A request began with the prefix, whose state is `checkpoint`. The state is stored, unless it is
  // stored already or has to be dropped. Does not block.
  void Met(const Prefix& prefix, const std::shared_ptr<Checkpoint>& checkpoint);
  // The image of a state at `position`, which is checked by what reads it. Blocks.
  absl::StatusOr<std::shared_ptr<const Blob>> Load(const std::string& name, int64_t position);
  // Removes what could not be read: damaged, or not what its name promises.
  void Refuse(const std::string& name, const absl::Status& why);

  // To be called every second.
  void Sweep();
  // Writes what waits, and the times of use. Nothing is written after that.
  void Stop();

  void AddStats(SessionStats& stats) const;

 private:
  static constexpr int kSweepsPerLook = 5;
  struct Known {
    std::string name;
    absl::Time used;
    absl::Time stored_use;
  };
  using ById = std::map<std::string, Known>;

  StoredPrefixes(Options options, int64_t budget);
  // These block. All but Remove are for the thread that writes, or for when it does not run.
  absl::Status Look();
  void Write(const Prefix& prefix, const std::weak_ptr<Checkpoint>& checkpoint);
  absl::Status Put(const Prefix& prefix, const std::weak_ptr<Checkpoint>& checkpoint);
  // False if nothing can go.
  bool EvictOne();
  bool Remove(const std::string& id, absl::Time unused_since);
  void RemoveExpired();
  // Stores uses that are later than the stored ones by `interval` or more.
  void StoreUses(absl::Duration interval);
  void Tidy(bool look);

  bool IsOver(const Known& known) const;
  std::string IdOf(const std::string& name) const;  // empty if it is not known
  void Forget(const std::string& id);
  void Enter(const std::string& id, Known known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const int64_t budget_;

  mutable Mutex mutex_;
  ById by_id_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, std::string> id_of_ ABSL_GUARDED_BY(mutex_);  // by name
  std::set<std::string> writing_ ABSL_GUARDED_BY(mutex_);  // names, what waits included
  bool tidying_ ABSL_GUARDED_BY(mutex_) = false;
  int sweeps_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t writes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t drops_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t evictions_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;

  TaskThreads<> writer_{{.threads = 1}};  // last: it uses all of the above
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_PLACEMENT_STORED_PREFIXES_H_
