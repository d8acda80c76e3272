// CUDA, or what stands in for it in tests. The same sources are compiled twice: by nvcc against the
// toolkit, in namespace tvq::cuda, and as plain C++, in tvq::cuda_stand_in, for tests on machines
// without a GPU. For these tests/kernels/cuda/stand_in has headers of the same names.
#ifndef TVQ_KERNELS_CUDA_PLATFORM_H_
#define TVQ_KERNELS_CUDA_PLATFORM_H_

#include <cublas_v2.h>
#include <cuda_runtime.h>

#if defined(TVQ_CUDA_STAND_IN)
#define TVQ_CUDA cuda_stand_in
#else
#define TVQ_CUDA cuda
#endif

#endif  // TVQ_KERNELS_CUDA_PLATFORM_H_
