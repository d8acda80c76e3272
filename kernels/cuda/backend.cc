#include "kernels/ops/backend.h"

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"

namespace tvq::TVQ_CUDA {

const Backend& CudaBackend() {
  static constexpr Backend kBackend = {.name = "cuda", TVQ_COMMON_OPS(TVQ_ENTRY_OF_OP, Cuda)};
  return kBackend;
}

}  // namespace tvq::TVQ_CUDA
