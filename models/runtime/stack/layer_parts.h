// The parts of a session's state that one layer keeps, and the checks that only this layer can do.
#ifndef TVQ_MODELS_RUNTIME_STACK_LAYER_PARTS_H_
#define TVQ_MODELS_RUNTIME_STACK_LAYER_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/ops/attention/softmax_attention.h"
#include "models/runtime/stack/state_part.h"
#include "models/runtime/state.h"

namespace tvq {

// Where a layer's parts of one session lie, in the device's memory or the host's.
struct PartMemory {
  std::byte* block = nullptr;        // holds the parts that are not in pages
  std::span<const int64_t> offsets;  // of every part, from the start of `block` or of a page
  KeyValuePages pages;

  template <typename T>
  T* At(size_t part) const {
    return reinterpret_cast<T*>(block + offsets[part]);
  }
};

// Immutable, hence thread-safe.
class LayerParts {
 public:
  explicit LayerParts(std::vector<StatePart> parts) : parts_(std::move(parts)) {}
  virtual ~LayerParts() = default;

  // Derived parts come last.
  const std::vector<StatePart>& parts() const { return parts_; }

  // The sections of a state at `position` that have been read so far.
  struct Read {
    std::span<const SectionInfo> sections;  // all of the layer
    std::span<const std::byte> last;        // elements of the section that was read last
    PartMemory memory;  // in host memory: parts read so far that are not in pages
    int64_t position = 0;
  };
  // Whether section `part`, the last one that was read, can be that of a state. The caller has
  // checked that floating point numbers are finite. INVALID_ARGUMENT names section and element.
  virtual absl::Status Check(size_t part, const Read& read) const {
    static_cast<void>(part), static_cast<void>(read);
    return absl::OkStatus();
  }
  // Computes the derived parts from the others, in host memory.
  virtual void Derive(const PartMemory& memory) const { static_cast<void>(memory); }

 private:
  const std::vector<StatePart> parts_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_LAYER_PARTS_H_
