// Groups of int4 by vectors, for packing: the bits of QuantizeGroup (kernels/int4.h).
#ifndef TVQ_KERNELS_CPU_LINEAR_QUANTIZE_GROUPS_H_
#define TVQ_KERNELS_CPU_LINEAR_QUANTIZE_GROUPS_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace tvq {

// values, q [groups, kInt4Group], scales [groups]. What a row's last group lacks is zeros.
void QuantizeGroups(const float* values, int64_t groups, BFloat16* scales, int8_t* q);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LINEAR_QUANTIZE_GROUPS_H_
