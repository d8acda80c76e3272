// A warp's matrix instruction, and 16-byte loads.
#ifndef TVQ_KERNELS_CUDA_COMMON_MMA_CUH_
#define TVQ_KERNELS_CUDA_COMMON_MMA_CUH_

#include "kernels/cuda/common/int8.cuh"
#include "kernels/cuda/common/kernel.cuh"
#include "kernels/numbers/bfloat16.h"

namespace tvq::TVQ_CUDA {

// D[16,8] += A[16,16] B[16,8] over a whole warp: bfloat16 factors, float32 sums (PTX mma.m16n8k16).
// With g = lane / 4 and t = lane % 4 a register holds two elements that follow one another along k:
//
//   a[0] A[g, 2t..]   a[1] A[g+8, 2t..]   a[2] A[g, 2t+8..]   a[3] A[g+8, 2t+8..]
//   b[0] B[2t.., g]   b[1] B[2t+8.., g]
//   d[0..1] D[g, 2t..2t+1]   d[2..3] D[g+8, 2t..2t+1]
__device__ inline void MultiplyAdd16x8x16(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                          float (&d)[4]) {
#if defined(TVQ_CUDA_STAND_IN)
  struct Registers {
    uint32_t a[4], b[2];
  };
  const WarpValues<Registers> warp(kAllLanes, {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
  // Rows g and g + 8 of A, columns 2 t and 2 t + 1 of B, as the lanes hold them.
  const int g = LaneId() / 4, t = LaneId() % 4;
  float rows[2][16], columns[2][16];
  const auto widen = [](uint32_t two, float* to) {
    to[0] = std::bit_cast<float>(two << 16);
    to[1] = std::bit_cast<float>(two & 0xffff0000U);
  };
  for (int pair = 0; pair < 4; ++pair) {
    const Registers of_row = warp.Read(g * 4 + pair);
    for (int i = 0; i < 4; ++i) widen(of_row.a[i], &rows[i % 2][i / 2 * 8 + pair * 2]);
    for (int c = 0; c < 2; ++c) {
      const Registers of_column = warp.Read((t * 2 + c) * 4 + pair);
      for (int i = 0; i < 2; ++i) widen(of_column.b[i], &columns[c][i * 8 + pair * 2]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 16; ++k) d[i] += rows[i / 2][k] * columns[i % 2][k];
  }
#else
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// Four int8 as four bfloat16, exactly.
__device__ inline void WidenInt8(uint32_t four, uint32_t& first_two, uint32_t& last_two) {
  uint32_t wide[4];
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) wide[i] = __float_as_uint(WidenByte(four, i));
  first_two = __byte_perm(wide[0], wide[1], 0x7632U);  // their upper halves
  last_two = __byte_perm(wide[2], wide[3], 0x7632U);
}

// Loads 16 bytes that are read once, without keeping them in the L1 cache. The load stays on its
// side of WaitForPredecessor (overlap.cuh): the compiler does not move it since it is volatile, nor
// does the assembler since it takes the coherent path.
__device__ inline uint4 LoadStreamed(const uint4* from) {
#if defined(TVQ_CUDA_STAND_IN)
  return *from;
#else
  uint4 value;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value;
#endif
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_COMMON_MMA_CUH_
