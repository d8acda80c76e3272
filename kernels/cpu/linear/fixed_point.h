// Rows of x as fixed-point numbers, which int8 and int4 weights multiply exactly.
//
// A value becomes step * q, with q rounded to nearest even. step is the smallest power of two, at
// least 2^-124, for which 2^15 * step is more than 1.004 max |x| of the row. So |q| is at most
// 32639 = 127 * 257, and q = 256 high + low, with high from -127 to 127 and low from -128 to 127. A
// prepared row is its head and then its values, with `in` padded with zeros to a multiple of 4:
//
//   words: q as int16         bytes: all of high, then all of low, as int8
//
// A sum of products w q is 256 H + L, where H is the sum of w high and L the sum of w low. Both fit
// int32 up to kMaxInt8Width. All code carries from L to H, also code that computes the sum in
// another way, so that 0 <= L < 256. Then H and L are determined by the sum, and so are the bits of
// (256 H + L) step in float32. So an int8 linear has the same bits in whatever order and by
// whatever instructions it is computed.
//
// For int4 weights a row is padded to whole groups, and behind the values lies one int32 for each
// group: -kInt4Offset times the sum of its q. It corrects for weights that are stored as unsigned,
// kInt4Offset too large. The sum of a group's products is at most 32 * 15 * 32639 < 2^24, an exact
// float32.
#ifndef TVQ_KERNELS_CPU_LINEAR_FIXED_POINT_H_
#define TVQ_KERNELS_CPU_LINEAR_FIXED_POINT_H_

#include <cstdint>

#include "kernels/numbers/int4.h"

namespace tvq {

struct FixedPointHead {
  float step;  // NaN if any x is not finite; then all q are zero
  // -kInt8Offset times the sums of high and of low. They correct for weights that are stored as
  // unsigned, kInt8Offset too large.
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
