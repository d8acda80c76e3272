// Weights of many queries times packed rows of values by VDPBF16PS, which multiplies pairs of
// bfloat16: what packed_product-inl.h does with float32, in half the time.
#ifndef TVQ_KERNELS_CPU_VQ_ATTENTION_PAIR_PRODUCT_H_
#define TVQ_KERNELS_CPU_VQ_ATTENTION_PAIR_PRODUCT_H_

#include <cstdint>

#include "kernels/cpu/query_rows.h"
#include "kernels/device/tensor.h"

namespace tvq {

// Rows of values that are multiplied at a time: 256 x 64 bfloat16 are 32 KB, which stay in the L1
// cache while they are multiplied with the weights of all queries.
inline constexpr int64_t kPairPassRows = 256;

// Rows 2 i and 2 i + 1 of values as one row: each column has the even row's value in its lower
// half.
using RowPair = uint32_t[kPackColumns];

// out (+)= weight[:, offset .. offset + depth) x pairs [(depth + 1) / 2], for `columns` columns.
// Where a query's last weight is among these, out is then multiplied with scale[row]. An output is
// one sum, in order of the pairs. The offset and the weights' stride are even, and an odd number of
// weights has a zero behind it. Numbers below 2^-126 count as zero. Only where the device's
// dot().bf16 says so.
void MultiplyPairs(const QueryRowsOf<BFloat16>& queries, const float* scale, int64_t offset,
                   int64_t depth, const RowPair* pairs, int64_t columns, bool accumulate);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_VQ_ATTENTION_PAIR_PRODUCT_H_
