// Keeps committed states where there is room for them.
#ifndef TVQ_SERVER_SESSIONS_TIERS_H_
#define TVQ_SERVER_SESSIONS_TIERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/continuation.h"
#include "server/sessions/checkpoint.h"
#include "server/sessions/movers.h"
#include "server/sessions/session_stats.h"
#include "server/sessions/session_store.h"

namespace tvq {

// Thread-safe. Checkpoints and the state sources made from them keep it alive; after Stop they fill
// nothing any more.
class Tiers : public std::enable_shared_from_this<Tiers> {
 public:
  static std::shared_ptr<Tiers> Create();

  // A state that was just computed, with its share of the device.
  std::shared_ptr<Checkpoint> Add(size_t model, Continuation next);

  // Where a request starts that continues from `checkpoint`: a working copy, made when the request
  // is admitted.
  StartPoint Start(std::shared_ptr<Checkpoint> checkpoint);

  Tier Where(const Checkpoint& checkpoint) const;

  // Waits for moves under way.
  void Stop();

 private:
  friend class Checkpoint;
  class Source;

  Tiers() : restores_(2) {}
  void Forget(Checkpoint* checkpoint);
  absl::StatusOr<HeldState> Fill(const Checkpoint& checkpoint, HeldState blank);

  mutable absl::Mutex mutex_;
  Movers restores_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_TIERS_H_
