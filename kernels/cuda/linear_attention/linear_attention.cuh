// What decode and prefill of linear attention share.
#ifndef TVQ_KERNELS_CUDA_LINEAR_ATTENTION_LINEAR_ATTENTION_CUH_
#define TVQ_KERNELS_CUDA_LINEAR_ATTENTION_LINEAR_ATTENTION_CUH_

#include "kernels/cuda/common/kernel.cuh"

namespace tvq::TVQ_CUDA {

// Why queries that are exponents of features are refused.
inline absl::Status NoExponents(const char* op) {
  return absl::UnimplementedError(
      absl::StrCat(op, ": the backend 'cuda' takes features of queries, not exponents of them; ",
                   "the backend 'cpu' takes both"));
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_LINEAR_ATTENTION_LINEAR_ATTENTION_CUH_
