// What a stack knows of its layers: each adds to the rows of a call what it makes of them and of
// what it keeps of their sessions.
#ifndef TVQ_MODELS_RUNTIME_STACK_LAYER_H_
#define TVQ_MODELS_RUNTIME_STACK_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "kernels/device/tensor.h"
#include "models/runtime/stack/layer_parts.h"
#include "models/runtime/stack/state_layout.h"
#include "models/runtime/stack/weight_loader.h"
#include "models/runtime/stack/working_memory.h"

namespace tvq {

// Rows of a call. n: tokens of a prompt, or one of each of a batch.
struct LayerRows {
  Matrix<float> x;         // [n, D]
  int64_t chunk_rows = 0;  // kernels/ops/linear.h
};

// What a layer keeps of the session whose prompt is fed.
struct LayerState {
  PartMemory memory;
  int64_t position = 0;             // of the first row
  Vector<const int64_t> positions;  // [n], of all, on the device
};

// What it keeps of the sessions of a batch.
struct RowStates {
  const void* views = nullptr;  // of each row Layer::View, on the device
  size_t view_bytes = 0;
  Vector<const int64_t> positions;  // [n]

  template <typename View>
  Vector<const View> As() const {
    if (sizeof(View) != view_bytes) std::abort();
    return {static_cast<const View*>(views), positions.shape};
  }
};

// Where a token's way through a layer is rounded (ModelInfo).
struct LayerRounding {
  int64_t products = 0, kept = 0, factors = 0;
};

// Of layers whose decode steps can be taken back: rows of a call that come behind another of the
// same state, numbered from 0.
class LayerUndo {
 public:
  virtual ~LayerUndo() = default;
  virtual int64_t rows() const = 0;  // at most so many in a call
  // Completes the view of one: its step keeps what TakeBack needs until another row has the number.
  virtual void ViewDraft(int64_t draft, std::byte* view) const = 0;
  // The position that was fed last to the state, as that row.
  virtual absl::Status TakeBack(const PartMemory& memory, int64_t position, int64_t draft) = 0;
};

// parts may be used from any thread, everything else from one at a time.
class Layer {
 public:
  // Names of its tensors and of the sections of its parts begin with `prefix`.
  explicit Layer(std::string prefix) : prefix_(std::move(prefix)) {}
  virtual ~Layer() = default;

  const std::string& prefix() const { return prefix_; }

  // What is wrong is in `loader`.
  virtual void Load(WeightLoader& loader) = 0;
  // Asks for the working memory of calls of up to `rows` rows; once, after Load.
  virtual void Reserve(int64_t rows, WorkingMemory& memory) = 0;
  // Whether the device has what the layer needs, when there is memory; UNIMPLEMENTED names what
  // would do.
  virtual absl::Status CheckDevice() { return absl::OkStatus(); }

  // What it keeps of a session, and, told once, where that lies.
  virtual const LayerParts& parts() const;
  virtual void Place(const StateLayout::Layer& where) { static_cast<void>(where); }

  // What decode ops are told of a session's state: one of their structs, as bytes, a multiple of 8
  // of them. All zero: of no session.
  virtual size_t view_bytes() const { return 0; }
  virtual void View(const PartMemory& memory, std::byte* view) const {
    static_cast<void>(memory), static_cast<void>(view);
  }

  // Feeds the rows to the state, or to those of the rows. Decode must not depend on the number of
  // rows, and can be recorded unless the host takes part.
  virtual absl::Status Prefill(const LayerState& state, const LayerRows& rows) = 0;
  virtual absl::Status Decode(const RowStates& states, const LayerRows& rows) = 0;

  virtual LayerRounding rounding() const = 0;
  // Numbers that exact attention of its heads would keep of each token: keys and values.
  virtual int64_t cached_numbers() const { return 0; }
  // nullptr: what was fed stays. Layers that keep nothing need none.
  virtual LayerUndo* undo() { return nullptr; }

 private:
  const std::string prefix_;
};

inline const LayerParts& Layer::parts() const {
  static const auto* const none = new LayerParts({});
  return *none;
}

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_LAYER_H_
