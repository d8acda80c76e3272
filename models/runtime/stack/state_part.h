// A part of a session's state, which a layer keeps.
#ifndef TVQ_MODELS_RUNTIME_STACK_STATE_PART_H_
#define TVQ_MODELS_RUNTIME_STACK_STATE_PART_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/device/tensor.h"
#include "kernels/ops/attention/softmax_attention.h"
#include "models/runtime/state.h"

namespace tvq {

enum class Element : uint8_t { kFloat32, kBFloat16, kInt8, kInt32, kInt64 };

constexpr int64_t SizeOf(Element element) {
  switch (element) {
    case Element::kInt8:
      return 1;
    case Element::kBFloat16:
      return 2;
    case Element::kFloat32:
    case Element::kInt32:
      return 4;
    case Element::kInt64:
      return 8;
  }
  std::abort();
}
// `dtype` must be float32 or bfloat16.
constexpr Element ElementOf(DType dtype) {
  return dtype == DType::kFloat32 ? Element::kFloat32 : Element::kBFloat16;
}

// What shape[1] of a part counts.
enum class Growth : uint8_t {
  kConstant,
  kRing,   // the last shape[1] positions: position p lies in slot p % shape[1]
  kPages,  // all positions, in pages; shape[1] is kKeyValuePage
};

struct StatePart {
  std::string name;  // the section's name is the layer's prefix + this
  Element element = Element::kFloat32;
  std::vector<int64_t> shape;
  Growth growth = Growth::kConstant;
  // For kPages: how many positions lie interleaved, number by number (kernels/ops/attention/
  // softmax_attention.h). 1: the numbers of a position lie together.
  int64_t panel = 1;
  // Whether the part is a function of the other parts: it then has no section and is computed when
  // they have been loaded.
  bool derived = false;

  // Bytes in device memory; for kPages, of one page.
  int64_t bytes() const { return SizeOf(element) * Product(0); }
  bool in_pages() const { return growth == Growth::kPages; }
  // The shape of the section of a state at `position`. A section has its positions from the oldest
  // to the newest.
  std::vector<int64_t> ShapeAt(int64_t position) const {
    std::vector<int64_t> at = shape;
    if (growth == Growth::kRing) at[1] = std::min(position, shape[1]);
    if (growth == Growth::kPages) at[1] = position;
    return at;
  }
  // Elements of one position of one head.
  int64_t row() const { return Product(2); }

 private:
  int64_t Product(size_t first) const {
    int64_t product = 1;
    for (size_t i = first; i < shape.size(); ++i) product *= shape[i];
    return product;
  }
};

// Calls copy(section, memory, bytes) for every run of bytes that is contiguous both in the section
// of `part` and in memory; `section` and `memory` are its offsets in bytes. `part` is a ring or in
// pages; in memory each page lies `stride` bytes behind the one before.
template <typename Copy>
void ForEachRun(const StatePart& part, int64_t position, int64_t stride, const Copy& copy) {
  const int64_t slots = part.shape[1], kept = part.ShapeAt(position)[1], oldest = position - kept;
  const int64_t element = SizeOf(part.element), row = part.row(), panel = part.panel;
  const int64_t run = panel == 1 ? row : 1;
  for (int64_t g = 0; g < part.shape[0]; ++g) {
    for (int64_t p = 0; p < kept; ++p) {
      const int64_t at = oldest + p, slot = at % slots;
      const int64_t page = part.in_pages() ? at / slots * stride : 0;
      const int64_t first = (g * slots + slot / panel * panel) * row + slot % panel;
      for (int64_t i = 0; i < row; i += run) {
        copy(((g * kept + p) * row + i) * element, page + (first + i * panel) * element,
             run * element);
      }
    }
  }
}

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_STATE_PART_H_
