// Groups of int4 by vectors, for packing: the bits of QuantizeGroup (kernels/numbers/int4.h).
#ifndef TVQ_KERNELS_CPU_LINEAR_QUANTIZE_GROUPS_H_
#define TVQ_KERNELS_CPU_LINEAR_QUANTIZE_GROUPS_H_

#include <cstdint>

#include "kernels/numbers/int4.h"

namespace tvq {

// Words of four bytes of a group, as packed_weight.h has them in lines of the int4 layout: values 8
// i to 8 i + 3 in the lower halves of word i, 8 i + 4 to 8 i + 7 in the upper ones, each its q +
// kInt4Offset.
inline constexpr int64_t kInt4Words = kInt4Group / 8;

// values [groups, kInt4Group], scales [groups], words [groups, kInt4Words]. What a row's last group
// lacks is zeros.
void QuantizeGroups(const float* values, int64_t groups, BFloat16* scales, uint32_t* words);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LINEAR_QUANTIZE_GROUPS_H_
