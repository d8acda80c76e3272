#include "tests/kernels/cuda/stand_in/cublas_v2.h"

#include <bit>
#include <cstdint>

#include "kernels/numbers/bfloat16.h"
#include "tests/kernels/cuda/stand_in/cuda_runtime.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace {

// What of a float32 enters a product: all, or as tf32 11 bits, the others cut off as matrix units
// may.
double Factor(float value, bool tf32) {
  constexpr uint32_t kTf32Bits = 0xffffe000;
  return tf32 ? std::bit_cast<float>(std::bit_cast<uint32_t>(value) & kTf32Bits) : value;
}

double At(const void* matrix, cudaDataType type, bool tf32, int64_t index) {
  return type == CUDA_R_32F ? Factor(static_cast<const float*>(matrix)[index], tf32)
                            : tvq::ToFloat(static_cast<const tvq::BFloat16*>(matrix)[index]);
}

}  // namespace

const char* cublasGetStatusString(cublasStatus_t) { return "the stand-in's"; }

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

// Aligned to 256 bytes, as cuBLAS wants it.
cublasStatus_t cublasSetWorkspace(cublasHandle_t, void* workspace, size_t) {
  return reinterpret_cast<uintptr_t>(workspace) % 256 == 0 ? CUBLAS_STATUS_SUCCESS
                                                           : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t, cublasAtomicsMode_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType a_type, int lda, const void* b, cudaDataType b_type,
                            int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  const bool known = of_a == CUBLAS_OP_T && of_b == CUBLAS_OP_N && c_type == CUDA_R_32F &&
                     *static_cast<const float*>(alpha) == 1 &&
                     *static_cast<const float*>(beta) == 0;
  if (!known || m < 1 || n < 1 || k < 1 || lda < k || ldb < k || ldc < m) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto multiply = [=] {
    for (int64_t row = 0; row < n; ++row) {
      for (int64_t o = 0; o < m; ++o) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i) {
          sum += At(a, a_type, tf32, o * lda + i) * At(b, b_type, tf32, row * ldb + i);
        }
        static_cast<float*>(c)[row * ldc + o] = static_cast<float>(sum);
      }
    }
  };
  const cudaError_t error =
      tvq::cuda_stand_in::LaunchGrid("Gemm", dim3{}, dim3{}, 0, multiply, handle->stream);
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
