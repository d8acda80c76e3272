// The device memory in which a model computes, allocated once.
#ifndef TVQ_MODELS_RUNTIME_STACK_WORKING_MEMORY_H_
#define TVQ_MODELS_RUNTIME_STACK_WORKING_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace tvq {

inline int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Arrays of 4-byte elements, each at a multiple of 64 bytes. Pointers are set when memory is
// allocated: the objects that hold the pointers must not move until then.
class WorkingMemory {
 public:
  // Asks for an array that shares its memory with no other.
  template <typename T>
  void Keep(T** pointer, int64_t count) {
    kept_bytes_ += Add(kept_, pointer, count, kept_bytes_);
  }
  // Asks for an array that is used only while the current layer runs. Layers run one after the
  // other, so all get the same memory.
  template <typename T>
  void Share(T** pointer, int64_t count) {
    layer_bytes_ += Add(shared_, pointer, count, layer_bytes_);
    shared_bytes_ = std::max(shared_bytes_, layer_bytes_);
  }
  // Arrays asked for from here on belong to the next layer.
  void NextLayer() { layer_bytes_ = 0; }

  // Allocates zeroed memory for all arrays and sets their pointers.
  absl::StatusOr<Buffer> Allocate(Device& device) const {
    absl::StatusOr<Buffer> memory =
        device.Allocate(static_cast<size_t>(kept_bytes_ + shared_bytes_));
    if (!memory.ok()) return memory;
    auto* const first = memory->as<std::byte>();
    for (const Array& array : kept_) array.SetTo(first);
    for (const Array& array : shared_) array.SetTo(first + kept_bytes_);
    return memory;
  }

 private:
  struct Array {
    std::variant<float**, int32_t**> pointer;
    int64_t offset;

    void SetTo(std::byte* first) const {
      std::visit(
          [&](auto* p) { *p = reinterpret_cast<std::decay_t<decltype(*p)>>(first + offset); },
          pointer);
    }
  };

  template <typename T>
  static int64_t Add(std::vector<Array>& arrays, T** pointer, int64_t count, int64_t offset) {
    arrays.push_back({pointer, offset});
    return Aligned(4 * count);
  }

  std::vector<Array> kept_, shared_;
  int64_t kept_bytes_ = 0, shared_bytes_ = 0, layer_bytes_ = 0;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_WORKING_MEMORY_H_
