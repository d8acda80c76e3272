// For blocks that share an output: the last of them to arrive puts together what all of them wrote.
#ifndef TVQ_KERNELS_CUDA_COMMON_TICKETS_CUH_
#define TVQ_KERNELS_CUDA_COMMON_TICKETS_CUH_

#include "kernels/cuda/common/kernel.cuh"

namespace tvq::TVQ_CUDA {

// Draws from `ticket`, and returns how many have drawn before. What the blocks that drew before did
// ahead of their draw is over after this one: what they wrote is seen, and what they read may be
// written.
__device__ inline uint32_t Draw(uint32_t* ticket) {
#if defined(TVQ_CUDA_STAND_IN)
  return atomicAdd(ticket, 1U);
#else
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(ticket)
               : "memory");
  return before;
#endif
}

// Whether this block is the last of the `sharing` blocks that call this with `ticket`, one of
// CudaDevice::Tickets. The last block leaves the ticket at zero, and sees what all of them wrote
// before. To be called by all threads of the block; `shared` is in the block's shared memory. One
// thread draws for the whole block, as its barriers order the others (as the barrier of a grid does
// in cooperative groups).
__device__ inline bool LastToArrive(uint32_t* ticket, int64_t sharing, uint32_t& shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    shared = Draw(ticket);
    if (shared == sharing - 1) *ticket = 0;
  }
  __syncthreads();
  return shared == sharing - 1;
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_COMMON_TICKETS_CUH_
