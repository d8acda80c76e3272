// Matrices in four bits. A row is cut into groups of kInt4Group values, of which the last may be
// shorter. The values of a group are scale * q, with q from -8 to 7 and one bfloat16 scale for each
// group.
//
//   scale = m / -t as bfloat16        q = w (1 / scale), to nearest, ties to even, from -8 to 7
//
// m is the first of the group's values of the largest magnitude; it becomes -t, so the scale may be
// below 0. t is the one of 6.5, 6.75, ..., 9 that has the least sum of squared errors, the first of
// equals. All of it is computed in float32. A group whose largest magnitude is below 2^-60 becomes
// zeros with scale 1.
//
// The root mean square error of any other group is at most |m| / 14 (1 + 2^-8), which is the bound
// for t = 7, where no value is clamped and each is off by at most half a scale. For normally
// distributed numbers it is 0.082 of their root mean square (0.086 with t = 8 alone).
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

// A group whose largest |value| is below this becomes zeros.
inline constexpr float kInt4Tiny = 0x1p-60F;

// The scales that are tried for a group whose first largest value is `largest`, one for each t =
// 6.5, 6.75, ..., 9.
inline constexpr int64_t kInt4Candidates = 11;
inline BFloat16 Int4Candidate(float largest, int64_t candidate) {
  return ToBFloat16(largest / (-6.5F - 0.25F * static_cast<float>(candidate)));
}

// Returns the scale of 1 to kInt4Group values, none above kInt4Largest in magnitude, and writes
// their q.
BFloat16 QuantizeGroup(std::span<const float> values, int8_t* q);

// A bound of what rounding a group to int4 changes; `largest` is the group's largest |value|.
RoundingBound Int4Rounding(std::span<const float> group, float largest);

}  // namespace tvq

#endif  // TVQ_KERNELS_NUMBERS_INT4_H_
