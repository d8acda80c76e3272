// Rows of x as fixed-point numbers, which int8 and int4 weights multiply exactly.
//
// A value becomes step q, q to nearest even; step is the smallest power of two from 2^-124 up of
// which 2^15 are more than 1.004 max |x| of the row. So |q| <= 32639 = 127 * 257, and q =
// 256 high + low with high from -127 to 127 and low from -128 to 127. A prepared row is its head,
// and then, `in` padded with zeros to a multiple of 4,
//
//   words: q as int16         bytes: all of high, then all of low, as int8
//
// A sum of products is 256 H + L, H of w high and L of w low, which fit int32 up to kMaxInt8Width.
// Code that computes the sum in another way carries, too, so that 0 <= L < 256: then H and L are
// determined by the sum, and so are the bits of (256 H + L) step in float32. An int8 linear has the
// same bits in whatever order, by whatever instructions it was computed.
//
// For int4 weights a row is padded to whole groups of them, and one int32 a group stands behind the
// values: -kInt4Offset times the sum of its q, what weights stored as unsigned add too much. The
// sum of a group's products is at most 32 * 15 * 32639 < 2^24, an exact float32.
#ifndef TVQ_KERNELS_CPU_LINEAR_FIXED_POINT_H_
#define TVQ_KERNELS_CPU_LINEAR_FIXED_POINT_H_

#include <cstdint>

#include "kernels/numbers/int4.h"

namespace tvq {

struct FixedPointHead {
  float step;  // NaN where x is not finite throughout, and q is zero then
  // -kInt8Offset times the sums of high and of low: what weights stored as unsigned add too much.
  int32_t high_offset;
  int32_t low_offset;
  int32_t unused;
};

// The largest `in` of an int8 or int4 weight.
inline constexpr int64_t kMaxInt8Width = 1 << 16;

inline int64_t FixedPointValues(int64_t in) { return (in + 3) / 4 * 4; }
inline int64_t FixedPointRowBytes(int64_t in) {
  return static_cast<int64_t>(sizeof(FixedPointHead)) + 2 * FixedPointValues(in);
}

// The same of a row for int4 weights.
inline int64_t GroupedValues(int64_t in) { return Int4Groups(in) * kInt4Group; }
inline int64_t GroupedRowBytes(int64_t in) {
  return static_cast<int64_t>(sizeof(FixedPointHead)) + 2 * GroupedValues(in) + 4 * Int4Groups(in);
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LINEAR_FIXED_POINT_H_
