// Where a layer's keys and values lie in a session's pages
// (kernels/ops/attention/softmax_attention.h), and how they are read: what the kernels of decode
// and prefill share.
#ifndef TVQ_KERNELS_CUDA_SOFTMAX_ATTENTION_SOFTMAX_PAGES_CUH_
#define TVQ_KERNELS_CUDA_SOFTMAX_ATTENTION_SOFTMAX_PAGES_CUH_

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/numbers/bfloat16.h"
#include "kernels/ops/attention/softmax_attention.h"

namespace tvq::TVQ_CUDA {

// Keys and values of type T, that of shape.dtype.
template <typename T>
struct LayerPages {
  KeyValueShape shape;
  int64_t layer_offset;
  KeyValuePages pages;

  // The key of head g at a position: its element i lies i * kKeyPanel further on. Beside it lie the
  // keys of the positions up to the panel's end.
  __device__ T* Key(int64_t g, int64_t position) const {
    return Start(position) + shape.KeyIndex(g, position % kKeyValuePage, 0);
  }
  __device__ T* Value(int64_t g, int64_t position) const {
    return Start(position) + shape.ValueOffset() / static_cast<int64_t>(sizeof(T)) +
           shape.ValueIndex(g, position % kKeyValuePage);
  }

 private:
  __device__ T* Start(int64_t position) const {
    return reinterpret_cast<T*>(static_cast<char*>(pages.pages[position / kKeyValuePage]) +
                                layer_offset);
  }
};

// How many elements 16 bytes have.
template <typename T>
constexpr int kOfPack = 16 / static_cast<int>(sizeof(T));

__device__ inline void Unpack(const uint4& pack, float (&values)[kOfPack<float>]) {
  values[0] = __uint_as_float(pack.x);
  values[1] = __uint_as_float(pack.y);
  values[2] = __uint_as_float(pack.z);
  values[3] = __uint_as_float(pack.w);
}
__device__ inline void Unpack(const uint4& pack, float (&values)[kOfPack<BFloat16>]) {
  const uint32_t words[4] = {pack.x, pack.y, pack.z, pack.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
  }
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_SOFTMAX_ATTENTION_SOFTMAX_PAGES_CUH_
