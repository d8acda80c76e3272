// The functions of cuBLAS that our sources call, where kernels run on the CPU: plain loops with
// float64 sums, on the stream as a kernel would be. Factors are cut to 11 bits where tf32 is
// allowed.
#ifndef TVQ_TESTS_KERNELS_CUDA_STAND_IN_CUBLAS_V2_H_
#define TVQ_TESTS_KERNELS_CUDA_STAND_IN_CUBLAS_V2_H_

#include <cstddef>

#include "tests/kernels/cuda/stand_in/runtime.h"

// The names are cuBLAS's: NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
struct cublasContext;
using cublasHandle_t = cublasContext*;
enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasAtomicsMode_t { CUBLAS_ATOMICS_NOT_ALLOWED = 0 };
enum cublasMath_t {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
};
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
enum cudaDataType { CUDA_R_32F = 0, CUDA_R_16BF = 14 };

const char* cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
// Column-major, as ever: C [m, n] = alpha A B + beta C. Of what it can do, what gemm.cc asks for: A
// transposed, B not, alpha 1, beta 0, C float32.
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType a_type, int lda, const void* b, cudaDataType b_type,
                            int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#endif  // TVQ_TESTS_KERNELS_CUDA_STAND_IN_CUBLAS_V2_H_
