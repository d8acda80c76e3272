// float32 as sums of bfloat16, for matrix instructions: x = x0 + x1 + ..., where each term is the
// rest of x rounded to nearest. x must be finite.
//
// For 2^e <= |x| < 2^(e + 1) a bfloat16, which has 8 bits, leaves a rest of at most 2^(e - 8): half
// a unit of its last place. A rest of just that is a bfloat16 itself; of a smaller rest the second
// term leaves at most 2^(e - 17). So |x1| is at most 2^-8 |x|, and less where |x| is not 2^e. Two
// terms hold x to 2^-17 of it. The third has the 7 bits that are left, so that three terms are all
// of x, except what is below the smallest number.
#ifndef TVQ_KERNELS_CUDA_COMMON_TERMS_CUH_
#define TVQ_KERNELS_CUDA_COMMON_TERMS_CUH_

#include <type_traits>

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/numbers/bfloat16.h"

namespace tvq::TVQ_CUDA {

// Both rounded to bfloat16, `first` in the lower half.
__device__ inline uint32_t RoundPair(float first, float second) {
#if defined(TVQ_CUDA_STAND_IN)
  return ToBFloat16(first).bits | static_cast<uint32_t>(ToBFloat16(second).bits) << 16;
#else
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#endif
}

// terms[t]: term t of both, `first` in the lower half.
template <int kTerms>
__device__ inline void SplitPair(float first, float second, uint32_t (&terms)[kTerms]) {
#pragma unroll
  for (int t = 0; t < kTerms; ++t) {
    terms[t] = RoundPair(first, second);
    first -= __uint_as_float(terms[t] << 16);
    second -= __uint_as_float(terms[t] & 0xffff0000U);
  }
}

// sum += what multiply(std::integral_constant<int, kTerms>, partial) adds to partial. A matrix
// instruction drops what is below its sum's last place: where that matters (`exact`), the
// instructions of a tile have a sum of their own, which is then added in float32.
template <int kTerms, bool exact, class Multiply, int kM, int kN>
__device__ inline void MultiplyTile(const Multiply& multiply, float (&sum)[kM][kN][4]) {
  const std::integral_constant<int, kTerms> terms;
  if constexpr (!exact) {
    multiply(terms, sum);
  } else {
    float partial[kM][kN][4] = {};
    multiply(terms, partial);
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[m][n][i] += partial[m][n][i];
      }
    }
  }
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_COMMON_TERMS_CUH_
