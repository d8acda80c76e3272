// Prepares rows for a projection: x, x * gate or the norm of x, float32 or rounded to bfloat16, and
// padded. It is used for a chunk of a prompt, and for more rows than blocks prepare for themselves
// (run_linear.cu).
//
// Moves N * in floats in and N * RowStride(in) elements out. Each row has a block; the norm's sums
// have the order of row_norm.cuh.
#include <algorithm>

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/row_norm.cuh"
#include "kernels/cuda/linear/linear_rows.h"
#include "kernels/cuda/linear/source_rows.cuh"
#include "kernels/numbers/bfloat16.h"

namespace tvq::TVQ_CUDA {
namespace {

struct Shared {
  float partial[kNormThreads / kWarp];
};

template <typename T>
__global__ void __launch_bounds__(kNormThreads)
    PrepareRowsKernel(SourceRows source, int64_t stride, T* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int row = static_cast<int>(blockIdx.x);
  out += row * stride;
  if (row >= source.rows) {
    for (int i = static_cast<int>(threadIdx.x); i < stride; i += kNormThreads) StoreAs(0, out + i);
    return;
  }
  RowNorm of_row;
  if (source.normed) {
    of_row = NormOfRow(source.norm, source.Row(row), source.width, BlockShared<Shared>().partial);
  }
  for (int i = static_cast<int>(threadIdx.x); i < stride; i += kNormThreads) {
    source.Prepare<1>(row, i, of_row, out + i);
  }
}

template <typename T>
absl::StatusOr<const void*> Prepare(Device& device, const RowSource& source) {
  const int64_t stride = RowStride(source.x.dim(1));
  const int64_t blocks = std::max(source.x.dim(0), source.chunk_rows);
  absl::StatusOr<T*> out = AsCuda(device).Scratch<T>(0, blocks * stride);
  if (!out.ok()) return out.status();
  const absl::Status status =
      Launch("PrepareRows", device, {.blocks = blocks, .threads = kNormThreads, .overlaps = true},
             PrepareRowsKernel<T>, SourceRows(source), stride, *out);
  if (!status.ok()) return status;
  return *out;
}

}  // namespace

absl::StatusOr<const void*> PrepareRows(Device& device, const RowSource& source, DType dtype) {
  return dtype == DType::kFloat32 ? Prepare<float>(device, source)
                                  : Prepare<BFloat16>(device, source);
}

}  // namespace tvq::TVQ_CUDA
