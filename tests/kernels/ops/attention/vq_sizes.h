#ifndef TVQ_TESTS_KERNELS_OPS_ATTENTION_VQ_SIZES_H_
#define TVQ_TESTS_KERNELS_OPS_ATTENTION_VQ_SIZES_H_

#include <cstdint>

#include "kernels/device/tensor.h"

namespace tvq {

struct VqSizes {
  int64_t heads, kv_heads, codes, window, value, tokens;
};

// Windows longer and shorter than a block, of one position, and never full; one code; own and
// shared key/value heads; values that fill no vector, a tile and a bit, and of a GPU's blocks one
// and a bit; more blocks of a prompt than the CPU takes together.
inline constexpr VqSizes kVqSizes[] = {
    {3, 3, 7, 9, 13, 150},    {4, 2, 40, 33, 64, 140}, {1, 1, 1, 1, 1, 70},
    {2, 1, 16, 70, 48, 200},  {2, 1, 6, 5, 560, 70},   {1, 1, 33, 200, 5, 150},
    {6, 1, 20, 65, 100, 130}, {1, 1, 64, 17, 300, 90}, {3, 1, 5, 130, 272, 260},
    {1, 1, 9, 20, 3, 590},
};

// Of prefill's products.
inline constexpr DType kFactors[] = {DType::kFloat32, DType::kBFloat16};

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_OPS_ATTENTION_VQ_SIZES_H_
