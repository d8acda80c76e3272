// The packed layout of a weight [out, in], the same for every instruction set:
//
//   float32   [pairs][in][2][16]      bfloat16   [pairs][ceil(in/2)][2][16][2]
//   int8      [pairs][ceil(in/4)][2][16][4]
//   int4      [pairs][ceil(in/32)] scales [32], panels [2][4][16][4]
//
// A panel holds 16 outputs. A line of 64 bytes has one step of `in` for all of them. For bfloat16
// it has two steps, as VDPBF16PS takes them, and for int8 four, as VPDPBUSD does. Panels come in
// pairs whose lines alternate, so that a pair, and a whole weight, is one stream of memory. All
// padding is zero. int8 is stored as unsigned, kInt8Offset above its value, as VPDPBUSD takes it.
//
// int4 lies group by group: a line with the bfloat16 scales of both panels, then four lines of each
// panel. A byte holds two values, kInt4Offset above what they are. Of the eight steps of `in` in a
// line, byte i of an output holds step i in its lower half and step 4 + i in its upper half.
#ifndef TVQ_KERNELS_CPU_LINEAR_PACKED_WEIGHT_H_
#define TVQ_KERNELS_CPU_LINEAR_PACKED_WEIGHT_H_

#include "kernels/numbers/int4.h"
#include "kernels/ops/linear.h"

namespace tvq {

inline constexpr int64_t kPanelOutputs = 16;
inline constexpr int64_t kPairOutputs = 2 * kPanelOutputs;
inline constexpr int64_t kLineBytes = 64;
inline constexpr int64_t kPairLineBytes = 2 * kLineBytes;  // of a step
inline constexpr int kInt8Offset = 128;
inline constexpr int kInt4Offset = 8;
// Lines of a group of int4: of one panel, and of a pair with its scales.
inline constexpr int64_t kInt4PanelLines = kInt4Group / 8;
inline constexpr int64_t kInt4PairLines = 1 + 2 * kInt4PanelLines;

// Steps of 64 bytes in a panel. Not for int4, which has no such steps.
inline int64_t PanelLines(int64_t in, DType dtype) {
  return dtype == DType::kFloat32 ? in : dtype == DType::kBFloat16 ? (in + 1) / 2 : (in + 3) / 4;
}

inline int64_t PairBytes(int64_t in, DType dtype) {
  const int64_t lines =
      dtype == DType::kInt4 ? Int4Groups(in) * kInt4PairLines : 2 * PanelLines(in, dtype);
  return lines * kLineBytes;
}

inline int64_t PanelPairs(int64_t out) { return (out + kPairOutputs - 1) / kPairOutputs; }

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LINEAR_PACKED_WEIGHT_H_
