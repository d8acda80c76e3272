// What a stack knows of its layers. A layer adds to each row of a call its output, which it
// computes from the row and from what the layer keeps of the row's session.
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

// The n rows of a call: consecutive tokens of a prompt, or one token of each sequence of a batch.
struct LayerRows {
  Matrix<float> x;         // [n, D]
  int64_t chunk_rows = 0;  // see kernels/ops/linear.h
};

// For Prefill: what a layer keeps of the session whose prompt is fed.
struct LayerState {
  PartMemory memory;
  int64_t position = 0;             // of the first row
  Vector<const int64_t> positions;  // [n], of all rows, on the device
};

// For Decode: what a layer keeps of the sessions of a batch.
struct RowStates {
  const void* views = nullptr;  // what Layer::View gives for each row, on the device
  size_t view_bytes = 0;
  Vector<const int64_t> positions;  // [n]

  template <typename View>
  Vector<const View> As() const {
    if (sizeof(View) != view_bytes) std::abort();
    return {static_cast<const View*>(views), positions.shape};
  }
};

// How often a token is rounded on its way through a layer; see ModelInfo.
struct LayerRounding {
  int64_t products = 0, kept = 0, factors = 0;
};

// Takes drafts back, in layers that can. Drafts are the rows of a decode call that follow another
// row of the same state; those of a call are numbered from 0.
class LayerUndo {
 public:
  virtual ~LayerUndo() = default;
  virtual int64_t rows() const = 0;  // the most drafts in a call
  // Completes the view of a draft: its step then saves what TakeBack needs, until another draft
  // gets the same number.
  virtual void ViewDraft(int64_t draft, std::byte* view) const = 0;
  // Takes back what the draft of this number fed at `position`, which must be the last position
  // that was fed to the state.
  virtual absl::Status TakeBack(const PartMemory& memory, int64_t position, int64_t draft) = 0;
};

// Any thread may call parts(); one thread at a time may call everything else.
class Layer {
 public:
  // `prefix` begins the names of the layer's tensors and of its sections of a state.
  explicit Layer(std::string prefix) : prefix_(std::move(prefix)) {}
  virtual ~Layer() = default;

  const std::string& prefix() const { return prefix_; }

  // Loads the weights. Errors are in loader.status().
  virtual void Load(WeightLoader& loader) = 0;
  // Asks for the working memory of calls of up to `rows` rows; called once, after Load.
  virtual void Reserve(int64_t rows, WorkingMemory& memory) = 0;
  // Whether the device can compute the layer; called when working memory has been allocated.
  // UNIMPLEMENTED names what would do.
  virtual absl::Status CheckDevice() { return absl::OkStatus(); }

  // What the layer keeps of a session.
  virtual const LayerParts& parts() const;
  // Tells the layer once where its parts lie in a state.
  virtual void Place(const StateLayout::Layer& where) { static_cast<void>(where); }

  // The view of a session's state: the struct by which decode ops find it, as bytes, a multiple of
  // 8 of them. A view of all zeros belongs to no session.
  virtual size_t view_bytes() const { return 0; }
  virtual void View(const PartMemory& memory, std::byte* view) const {
    static_cast<void>(memory), static_cast<void>(view);
  }

  // Prefill feeds the rows to one state, Decode feeds each row to its own. What Decode computes for
  // a row must not depend on the number of rows. Decode can be recorded unless the host takes part.
  virtual absl::Status Prefill(const LayerState& state, const LayerRows& rows) = 0;
  virtual absl::Status Decode(const RowStates& states, const LayerRows& rows) = 0;

  virtual LayerRounding rounding() const = 0;
  // How many numbers a cache of all keys and values of its heads would keep for each token.
  virtual int64_t cached_numbers() const { return 0; }
  // nullptr if what was fed cannot be taken back. Layers that keep nothing of a session need none.
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
