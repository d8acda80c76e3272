// Parts of one block of device memory.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_MEMORY_PARTS_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_MEMORY_PARTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace tvq::transformer {

inline int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Arrays of elements of 4 bytes, each from a multiple of 64 bytes on.
class MemoryParts {
 public:
  void Add(float** pointer, int64_t count) { parts_.push_back({pointer, nullptr, count}); }
  void Add(int32_t** pointer, int64_t count) { parts_.push_back({nullptr, pointer, count}); }

  // Zeroed memory for all of them, to which their pointers are set.
  absl::StatusOr<Buffer> Allocate(Device& device) const {
    int64_t bytes = 0;
    for (const Part& part : parts_) bytes += Aligned(4 * part.count);
    absl::StatusOr<Buffer> memory = device.Allocate(static_cast<size_t>(bytes));
    if (!memory.ok()) return memory;
    auto* next = memory->as<std::byte>();
    for (const Part& part : parts_) {
      if (part.floats != nullptr) *part.floats = reinterpret_cast<float*>(next);
      if (part.integers != nullptr) *part.integers = reinterpret_cast<int32_t*>(next);
      next += Aligned(4 * part.count);
    }
    return memory;
  }

 private:
  struct Part {
    float** floats;
    int32_t** integers;
    int64_t count;
  };
  std::vector<Part> parts_;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_MEMORY_PARTS_H_
