// A committed state, wherever it lies.
#ifndef TVQ_SERVER_SESSIONS_CHECKPOINT_H_
#define TVQ_SERVER_SESSIONS_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/engine/continuation.h"

namespace tvq {

class Tiers;

// Never changes: sessions, marks, forks and prefixes that are at the same state hold the same
// checkpoint, and whoever computes works on a copy. Made by Tiers, which moves it between the
// places where a state can lie; freed when nobody holds it.
class Checkpoint : public std::enable_shared_from_this<Checkpoint> {
 public:
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // Constant.
  size_t model() const { return model_; }         // index among the engine's models
  int64_t position() const { return position_; }  // tokens that the state was fed
  int64_t bytes() const { return bytes_; }        // of the state on the device

 private:
  friend class Tiers;
  Checkpoint(std::shared_ptr<Tiers> tiers, size_t model, int64_t position, int64_t bytes)
      : tiers_(std::move(tiers)), model_(model), position_(position), bytes_(bytes) {}

  const std::shared_ptr<Tiers> tiers_;
  const size_t model_;
  const int64_t position_;
  const int64_t bytes_;

  // Guarded by the tiers' mutex.
  std::vector<int32_t> pending_;
  std::shared_ptr<const std::vector<float>> logits_;
  std::shared_ptr<const HeldState> device_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_CHECKPOINT_H_
