// int8 as float32.
#ifndef TVQ_KERNELS_CUDA_COMMON_INT8_CUH_
#define TVQ_KERNELS_CUDA_COMMON_INT8_CUH_

#include "kernels/cuda/common/kernel.cuh"

namespace tvq::TVQ_CUDA {

// Byte i of four int8, exactly. 0x4b000000 | n is the float32 2^23 + n.
__device__ inline float WidenByte(uint32_t four, uint32_t i) {
  const uint32_t biased = four ^ 0x80808080U;  // q + 128, from 0 to 255
  return __uint_as_float(__byte_perm(biased, 0x4b000000U, 0x7650U + i)) - 8388736.0F;  // 2^23 + 128
}

// Returns `four`. Called in a loop, it keeps the compiler from widening `four` ahead of the loop,
// into four registers.
__device__ inline uint32_t WidenedHere(uint32_t four) {
#if !defined(TVQ_CUDA_STAND_IN)
  asm volatile("" : "+r"(four));
#endif
  return four;
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_COMMON_INT8_CUH_
