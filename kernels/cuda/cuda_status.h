// Errors of the CUDA runtime as Status.
#ifndef TVQ_KERNELS_CUDA_CUDA_STATUS_H_
#define TVQ_KERNELS_CUDA_CUDA_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/platform.h"

namespace tvq::TVQ_CUDA {

// OK, or INTERNAL "<what>: <CUDA's message>"; RESOURCE_EXHAUSTED when memory is short.
inline absl::Status ToStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": ", cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(message)
                                            : absl::InternalError(message);
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_CUDA_STATUS_H_
