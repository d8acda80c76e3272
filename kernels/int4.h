// Matrices in four bits: groups of kInt4Group values of a row, the last one of what is left, are
// scale * q, q from -8 to 7 and one bfloat16 scale a group.
//
//   scale = m / -t as bfloat16        q = w (1 / scale), to nearest, ties to even, from -8 to 7
//
// m the first of the group's values of the largest magnitude (so that it becomes -t: the scale may
// be below 0), and t the one of 6.5, 6.75, ..., 9 that has the least sum of squared errors, the
// first of equals. All of it in float32. A group whose largest value is below 2^-60 becomes zeros
// with scale 1.
//
// The root mean square error of any other group is at most |m| / 14 (1 + 2^-8), which it has with
// t = 7, where nothing is cut off and a value errs by half a scale. Of normal numbers it is 0.082
// of their root mean square (0.086 with t = 8 alone).
#ifndef TVQ_KERNELS_INT4_H_
#define TVQ_KERNELS_INT4_H_

#include <cstdint>
#include <span>

#include "kernels/tensor.h"

namespace tvq {

inline constexpr int64_t kInt4Group = 32;
// The largest value that can be quantized, so that no sum overflows.
inline constexpr float kInt4Largest = 0x1p60F;

inline int64_t Int4Groups(int64_t width) { return (width + kInt4Group - 1) / kInt4Group; }

// The scale of 1 to kInt4Group values, of at most kInt4Largest, and their q.
BFloat16 QuantizeGroup(std::span<const float> values, int8_t* q);

// A bound of what rounding rows of `width` values changes, relative to them, in the root mean
// square.
double Int4Rounding(std::span<const float> values, int64_t width);

}  // namespace tvq

#endif  // TVQ_KERNELS_INT4_H_
