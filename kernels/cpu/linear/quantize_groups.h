// Quantizes groups to int4 with vector instructions, for packing. The bits are those of
// QuantizeGroup (kernels/numbers/int4.h).
#ifndef TVQ_KERNELS_CPU_LINEAR_QUANTIZE_GROUPS_H_
#define TVQ_KERNELS_CPU_LINEAR_QUANTIZE_GROUPS_H_

#include <cstdint>

#include "kernels/numbers/int4.h"

namespace tvq {

// Words of four bytes in a group, as they lie in lines of the int4 layout (packed_weight.h). The
// bytes of word i have values 8 i to 8 i + 3 in their lower halves and 8 i + 4 to 8 i + 7 in their
// upper ones, each as q + kInt4Offset.
inline constexpr int64_t kInt4Words = kInt4Group / 8;

// values [groups, kInt4Group], scales [groups], words [groups, kInt4Words]. Values that a row's
// last group lacks must be zeros.
void QuantizeGroups(const float* values, int64_t groups, BFloat16* scales, uint32_t* words);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LINEAR_QUANTIZE_GROUPS_H_
