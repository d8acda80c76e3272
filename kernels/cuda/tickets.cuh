// Blocks that share an output, and the last of them to arrive, which puts together what all left.
#ifndef TVQ_KERNELS_CUDA_TICKETS_CUH_
#define TVQ_KERNELS_CUDA_TICKETS_CUH_

#include "kernels/cuda/kernel.cuh"

namespace tvq::TVQ_CUDA {

// Whether this block is the last of the `sharing` blocks that call this with `ticket`, one of
// CudaDevice::Tickets, which it leaves at zero; then it sees what all of them wrote before. For all
// threads of the block; `shared` is the block's shared memory. One thread's fences stand for the
// block's, as its barriers order them (as the barrier of a grid does in cooperative groups).
__device__ inline bool LastToArrive(uint32_t* ticket, int64_t sharing, uint32_t& shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    shared = atomicAdd(ticket, 1U);
    if (shared == sharing - 1) *ticket = 0;
    __threadfence();
  }
  __syncthreads();
  return shared == sharing - 1;
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_TICKETS_CUH_
