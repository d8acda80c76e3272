// The part of an attention layer that depends on the kind of attention. A kind computes and keeps
// queries and keys in its own way; values and the output are the same for all kinds.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ATTENTION_CORE_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ATTENTION_CORE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/device/tensor.h"
#include "kernels/ops/qkvg_projection.h"
#include "models/runtime/stack/layer.h"

namespace tvq {

// The values that attention reads and the output that it writes, for the n rows of a call.
struct AttentionRows {
  Tensor<float, 3> v;    // [n, G, V]
  Tensor<float, 3> out;  // [n, H, V]
};

// Methods with the name of a Layer's method do the same, for attention alone.
class AttentionCore {
 public:
  virtual ~AttentionCore() = default;

  virtual void Load(const std::string& prefix, WeightLoader& loader) = 0;
  virtual void Reserve(int64_t rows, WorkingMemory& memory) = 0;
  virtual absl::Status CheckDevice() { return absl::OkStatus(); }

  virtual const LayerParts& parts() const = 0;
  virtual void Place(const StateLayout::Layer& where) { static_cast<void>(where); }
  virtual size_t view_bytes() const = 0;
  virtual void View(const PartMemory& memory, std::byte* view) const = 0;

  // Fills in the part of `args` that depends on the kind: where queries and keys go, and what is
  // added to queries.
  virtual void Project(int64_t rows, QkvgProjectionArgs& args) const = 0;

  // Attention over the rows that were projected last.
  virtual absl::Status Prefill(const LayerState& state, const AttentionRows& rows) = 0;
  virtual absl::Status Decode(const RowStates& states, const AttentionRows& rows) = 0;

  // Does not count the projections.
  virtual LayerRounding rounding() const { return {}; }
  virtual LayerUndo* undo() { return nullptr; }
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ATTENTION_CORE_H_
