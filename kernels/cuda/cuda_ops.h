// The functions of this backend. Arguments have been checked by kernels/ops; the device is a
// CudaDevice.
#ifndef TVQ_KERNELS_CUDA_CUDA_OPS_H_
#define TVQ_KERNELS_CUDA_CUDA_OPS_H_

#include "kernels/cuda/platform.h"
#include "kernels/ops/ops.h"

namespace tvq::TVQ_CUDA {

TVQ_COMMON_OPS(TVQ_DECLARE_OP, Cuda)

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_CUDA_OPS_H_
