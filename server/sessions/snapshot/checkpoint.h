// A committed state, wherever it lies.
#ifndef TVQ_SERVER_SESSIONS_SNAPSHOT_CHECKPOINT_H_
#define TVQ_SERVER_SESSIONS_SNAPSHOT_CHECKPOINT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "server/engine/request/continuation.h"
#include "server/sessions/snapshot/blob.h"
#include "server/sessions/snapshot/holders.h"

namespace tvq {

class Tiers;

// What a state's next call needs beside the state.
struct CheckpointHead {
  int64_t position = 0;  // tokens that the state was fed
  std::vector<int32_t> pending;
  std::shared_ptr<const std::vector<float>> logits;  // null if tokens are pending
};

// Never changes: sessions, marks, forks and prefixes that are at the same state hold the same
// checkpoint, and what computes works on a copy. Made by Tiers, which moves it between the
// places where a state can lie; freed when nothing holds it.
class Checkpoint : public std::enable_shared_from_this<Checkpoint> {
 public:
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // Constant.
  size_t model() const { return model_; }               // index among the engine's models
  int64_t bytes() const { return bytes_; }              // of the state on the device
  int64_t image_bytes() const { return image_bytes_; }  // of its image in host memory

 private:
  friend class Tiers;
  Checkpoint(std::shared_ptr<Tiers> tiers, size_t model, int64_t bytes, int64_t image_bytes)
      : tiers_(std::move(tiers)), model_(model), bytes_(bytes), image_bytes_(image_bytes) {}

  const std::shared_ptr<Tiers> tiers_;
  const size_t model_;
  const int64_t bytes_;
  const int64_t image_bytes_;

  // Guarded by the tiers' mutex. At least one of: device_, host_, all holders stored.
  std::shared_ptr<const HeldState> device_;
  std::shared_ptr<const Blob> host_;            // a state image
  std::shared_ptr<const CheckpointHead> head_;  // null: only the durable tier has it
  Holders holders_;
  int pins_ = 0;           // threads that read it where it lies: it stays there
  int64_t presents_ = 0;   // sessions whose present state it is
  uint64_t last_use_ = 0;  // larger than that of all that were used before
  // When to try again after a holder could not be stored, for a reason that concerns no others.
  std::chrono::steady_clock::time_point retry_at_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_SNAPSHOT_CHECKPOINT_H_
