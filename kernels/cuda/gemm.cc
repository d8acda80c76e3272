#include "kernels/cuda/gemm.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq::TVQ_CUDA {
namespace {

absl::Status ToStatus(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": cuBLAS says ", static_cast<int>(status), ", ",
                                           cublasGetStatusString(status));
  return status == CUBLAS_STATUS_ALLOC_FAILED ? absl::ResourceExhaustedError(message)
                                              : absl::InternalError(message);
}

}  // namespace

absl::StatusOr<Gemm> Gemm::Create(cudaStream_t stream, Buffer workspace, bool tf32) {
  cublasHandle_t handle = nullptr;
  absl::Status status = ToStatus(cublasCreate(&handle), "start cuBLAS");
  if (!status.ok()) return status;
  const size_t bytes = workspace.bytes();
  Gemm gemm(handle, std::move(workspace), tf32);
  status.Update(ToStatus(cublasSetStream(handle, stream), "cuBLAS's stream"));
  // After cublasSetStream, which takes the workspace away.
  status.Update(
      ToStatus(cublasSetWorkspace(handle, gemm.workspace_.data(), bytes), "cuBLAS's workspace"));
  status.Update(ToStatus(cublasSetAtomicsMode(handle, CUBLAS_ATOMICS_NOT_ALLOWED), "cuBLAS"));
  // Sums stay float32, also those of the parts of a split product.
  const auto mode =
      static_cast<cublasMath_t>(static_cast<int>(CUBLAS_DEFAULT_MATH) |
                                static_cast<int>(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
  status.Update(ToStatus(cublasSetMathMode(handle, mode), "cuBLAS's mode"));
  if (!status.ok()) return status;
  return gemm;
}

absl::Status Gemm::Multiply(const Product& product) const {
  // Row-major is column-major transposed: y^T [out, rows] = w [out, in] x^T.
  const float one = 1, zero = 0;
  const auto rows = static_cast<int>(product.rows), in = static_cast<int>(product.in),
             out = static_cast<int>(product.out);
  const cudaDataType type = product.dtype == DType::kFloat32 ? CUDA_R_32F : CUDA_R_16BF;
  const bool tf32 = tf32_ && product.dtype == DType::kFloat32;
  return ToStatus(
      cublasGemmEx(handle_.get(), CUBLAS_OP_T, CUBLAS_OP_N, out, rows, in, &one, product.w, type,
                   in, product.x, type, in, &zero, product.y, CUDA_R_32F, out,
                   tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      "a product");
}

}  // namespace tvq::TVQ_CUDA
