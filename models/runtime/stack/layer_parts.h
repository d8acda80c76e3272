// The parts that one layer keeps of a session, and what only the layer knows of them.
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
  std::byte* block = nullptr;        // of those that are not in pages
  std::span<const int64_t> offsets;  // of every part, from `block` or a page's start
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

  // Those that are derived come last.
  const std::vector<StatePart>& parts() const { return parts_; }

  // What has been read of the sections of a state at `position`.
  struct Read {
    std::span<const SectionInfo> sections;  // of the layer
    std::span<const std::byte> last;        // elements of the section that was read last
    PartMemory memory;                      // of those read, and not in pages; in host memory
    int64_t position = 0;
  };
  // Whether section `part`, the last one that was read, is of a state that tokens can have left.
  // Floating point numbers are finite where the caller has that checked. INVALID_ARGUMENT names
  // section and element.
  virtual absl::Status Check(size_t part, const Read& read) const {
    static_cast<void>(part), static_cast<void>(read);
    return absl::OkStatus();
  }
  // Makes what is derived, in host memory.
  virtual void Derive(const PartMemory& memory) const { static_cast<void>(memory); }

 private:
  const std::vector<StatePart> parts_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_LAYER_PARTS_H_
