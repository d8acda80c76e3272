// Blocks that share an output, and the last of them to arrive, which puts together what all left.
#ifndef TVQ_KERNELS_CUDA_COMMON_TICKETS_CUH_
#define TVQ_KERNELS_CUDA_COMMON_TICKETS_CUH_

#include "kernels/cuda/common/kernel.cuh"

namespace tvq::TVQ_CUDA {

// Draws from `ticket`: how many have before. What is ordered ahead of it in the blocks of those
// that drew before is over behind it: what they wrote is seen, and what they read may be written.
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
// CudaDevice::Tickets, which it leaves at zero; then it sees what all of them wrote before. For all
// threads of the block; `shared` is the block's shared memory. What one thread draws stands for the
// block, as its barriers order the others (as the barrier of a grid does in cooperative groups).
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
