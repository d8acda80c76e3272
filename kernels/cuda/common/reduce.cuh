// Sums and maxima over a warp or a block, in an order that is the same for every run.
#ifndef TVQ_KERNELS_CUDA_COMMON_REDUCE_CUH_
#define TVQ_KERNELS_CUDA_COMMON_REDUCE_CUH_

#include "kernels/cuda/common/kernel.cuh"

namespace tvq::TVQ_CUDA {

struct Add {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

// The value of the lane whose number differs in `bits`; T is a whole number of 32-bit words.
template <typename T>
__device__ __forceinline__ T ShuffleXor(const T& value, int bits) {
  static_assert(sizeof(T) % sizeof(uint32_t) == 0);
  uint32_t words[sizeof(T) / sizeof(uint32_t)];
  memcpy(words, &value, sizeof(T));
  for (uint32_t& word : words) word = __shfl_xor_sync(kAllLanes, word, bits);
  T other;
  memcpy(&other, words, sizeof(T));
  return other;
}

// Every lane receives the warp's result; a butterfly, so that all lanes see the same bits.
template <typename T, typename Op>
__device__ __forceinline__ T WarpReduce(T value, Op op) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = op(value, ShuffleXor(value, step));
  }
  return value;
}

// Every thread of a one-dimensional block of whole warps receives the block's result. `partial` is
// shared memory for one T a warp; it may be used again after the call. kWarps: how many warps the
// block has, if that is known at compile time, else 0.
template <int kWarps = 0, typename T, typename Op>
__device__ T BlockReduce(T value, T* partial, Op op) {
  value = WarpReduce(value, op);
  if (LaneId() == 0) partial[WarpId()] = value;
  __syncthreads();
  T result = partial[0];
  const int warps = kWarps > 0 ? kWarps : static_cast<int>(blockDim.x) / kWarp;
  for (int warp = 1; warp < warps; ++warp) {
    result = op(result, partial[warp]);
  }
  __syncthreads();
  return result;
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_COMMON_REDUCE_CUH_
