// Asynchronous copies from global into shared memory (cp.async): the thread goes on meanwhile, and
// no registers wait for the data.
#ifndef TVQ_KERNELS_CUDA_COMMON_ASYNC_COPY_CUH_
#define TVQ_KERNELS_CUDA_COMMON_ASYNC_COPY_CUH_

#include "kernels/cuda/platform.h"

namespace tvq::TVQ_CUDA {

// Starts a copy of 4, 8 or 16 bytes, both ends aligned to as many bytes. It belongs to the thread's
// open group. Like any read it must come after WaitForPredecessor (overlap.cuh).
template <int kBytes>
__device__ inline void StartCopy(void* shared, const void* global) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
#if defined(TVQ_CUDA_STAND_IN)
  StartAsyncCopy(shared, global, kBytes);
#else
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(kBytes)
                 : "memory");
  }
#endif
}

// Closes the thread's group of copies, which may be empty, and opens another.
__device__ inline void CloseCopies() {
#if defined(TVQ_CUDA_STAND_IN)
  CloseAsyncCopies();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for all of the thread's closed groups but the last kLater, so that this thread, no other,
// may read what they brought.
template <int kLater>
__device__ inline void WaitForCopies() {
#if defined(TVQ_CUDA_STAND_IN)
  WaitForAsyncCopies(kLater);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
#endif
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_COMMON_ASYNC_COPY_CUH_
