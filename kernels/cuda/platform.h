// CUDA, or what stands in for it. The same sources are compiled twice: by nvcc against the toolkit,
// in namespace tvq::cuda, and as plain C++ against kernels/cuda/host, in tvq::cuda_host, for tests
// on machines without a GPU.
#ifndef TVQ_KERNELS_CUDA_PLATFORM_H_
#define TVQ_KERNELS_CUDA_PLATFORM_H_

#if defined(TVQ_CUDA_HOST)
#include "kernels/cuda/host/cublas.h"
#include "kernels/cuda/host/cuda_host.h"
#define TVQ_CUDA cuda_host
#else
#include <cublas_v2.h>
#include <cuda_runtime.h>
#define TVQ_CUDA cuda
#endif

#endif  // TVQ_KERNELS_CUDA_PLATFORM_H_
