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
#ifndef TVQ_KERNELS_NUMBERS_INT4_H_
#define TVQ_KERNELS_NUMBERS_INT4_H_

#include <cstdint>
#include <span>

#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/quantize.h"

namespace tvq {

inline constexpr int64_t kInt4Group = 32;
// The largest value that can be quantized, so that no sum overflows.
inline constexpr float kInt4Largest = 0x1p60F;

inline int64_t Int4Groups(int64_t width) { return (width + kInt4Group - 1) / kInt4Group; }

// Below it a group's largest |value| makes zeros of all.
inline constexpr float kInt4Tiny = 0x1p-60F;

// Scales that a group may have whose first largest value is `largest`: by t = 6.5, 6.75, ..., 9.
inline constexpr int64_t kInt4Candidates = 11;
inline BFloat16 Int4Candidate(float largest, int64_t candidate) {
  return ToBFloat16(largest / (-6.5F - 0.25F * static_cast<float>(candidate)));
}

// The scale of 1 to kInt4Group values, of at most kInt4Largest, and their q.
BFloat16 QuantizeGroup(std::span<const float> values, int8_t* q);

// A bound of what rounding a group to int4 changes whose largest |value| is `largest`.
RoundingBound Int4Rounding(std::span<const float> group, float largest);

}  // namespace tvq

#endif  // TVQ_KERNELS_NUMBERS_INT4_H_
