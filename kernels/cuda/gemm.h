// Matrix products of whole chunks, by cuBLAS.
#ifndef TVQ_KERNELS_CUDA_GEMM_H_
#define TVQ_KERNELS_CUDA_GEMM_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/platform.h"
#include "kernels/device/memory.h"
#include "kernels/device/tensor.h"

namespace tvq::TVQ_CUDA {

// One handle, with memory of its own, on one stream. The same product twice gives the same bits:
// the library picks its algorithm from the shape, and neither splits by atomic additions nor
// allocates.
class Gemm {
 public:
  Gemm(Gemm&&) noexcept = default;
  Gemm& operator=(Gemm&&) noexcept = default;

  // `workspace`: kWorkspaceBytes of device memory, what NVIDIA advises for its largest GPUs (the
  // stand-in needs none). `tf32`: products of float32 may round their factors to 11 bits.
#if defined(TVQ_CUDA_STAND_IN)
  static constexpr size_t kWorkspaceBytes = 256;
#else
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;
#endif
  static absl::StatusOr<Gemm> Create(cudaStream_t stream, Buffer workspace, bool tf32);

  // y [rows, out] = x [rows, in] w^T, w [out, in], all row-major without gaps: float32, or bfloat16
  // with float32 sums. y is float32. `in` of bfloat16 is a multiple of 8.
  struct Product {
    DType dtype = DType::kFloat32;
    const void* x = nullptr;
    const void* w = nullptr;
    float* y = nullptr;
    int64_t rows = 0, in = 0, out = 0;
  };
  absl::Status Multiply(const Product& product) const;

 private:
  struct Destroy {
    void operator()(cublasContext* handle) const { cublasDestroy(handle); }
  };
  Gemm(cublasHandle_t handle, Buffer workspace, bool tf32)
      : workspace_(std::move(workspace)), handle_(handle), tf32_(tf32) {}

  Buffer workspace_;  // outlives the handle
  std::unique_ptr<cublasContext, Destroy> handle_;
  bool tf32_;
};

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_GEMM_H_
