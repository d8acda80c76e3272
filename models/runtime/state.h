// One session's decoding state, opaque to everyone but the model that made it.
#ifndef TVQ_MODELS_RUNTIME_STATE_H_
#define TVQ_MODELS_RUNTIME_STATE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace tvq {

// A named run of bytes of a state in its canonical form, which does not depend on how the state was
// computed. `elements` are of `element_bytes` each, little-endian.
struct StateSection {
  std::string_view name;  // for example "layers.3.acc_sum"
  int64_t element_bytes = 1;
  std::span<const std::byte> bytes;
};

// Made by Model::NewState, used only with that model, and only by the thread that runs the model.
class State {
 public:
  virtual ~State() = default;
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Tokens fed so far; the next token takes this position.
  virtual int64_t position() const = 0;

  // Device memory held, as Model::StateBytes(position()) says.
  virtual int64_t bytes() const = 0;

  // Makes this state an exact copy of `other`, a state of the same model.
  virtual absl::Status CopyFrom(const State& other) = 0;

  // Back to position 0, all zero.
  virtual absl::Status Reset() = 0;

  // Calls `visit` for every section in a fixed order; a section's bytes are valid during its call.
  virtual absl::Status VisitSections(
      const std::function<absl::Status(const StateSection&)>& visit) const = 0;

  // Fills the state with synthetic values as if `position` tokens had been fed, for measurements at
  // context lengths that nobody wants to wait for.
  virtual absl::Status Synthesize(int64_t position, uint64_t seed) = 0;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STATE_H_
