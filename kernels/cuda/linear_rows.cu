// Rows for a projection: x, x * gate or the norm of x, float32 or rounded to bfloat16, and padded.
//
// Moves N in floats in, N RowStride(in) elements out. A block a row; the norm's sums have the order
// of norm.cu.
#include "kernels/bfloat16.h"
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/linear_rows.h"
#include "kernels/cuda/row_norm.cuh"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kThreads = 256;

struct Shared {
  float partial[kThreads / kWarp];
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    PrepareRowsKernel(const float* x, int64_t rows, const float* gate, bool normed, Norm norm,
                      const float* gain, const float* bias, int64_t width, int64_t stride, T* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t row = blockIdx.x;
  x += row * width;
  out += row * stride;
  if (row >= rows) {
    for (int64_t i = threadIdx.x; i < stride; i += kThreads) StoreAs(0, out + i);
    return;
  }
  RowNorm of_row;
  if (normed) of_row = NormOfRow(norm, x, width, BlockShared<Shared>().partial);
  for (int64_t i = threadIdx.x; i < stride; i += kThreads) {
    float value = 0;
    if (i < width) {
      value = normed ? of_row(x[i]) : x[i];
      if (gate != nullptr) value *= gate[row * width + i];
      if (gain != nullptr) value *= gain[i];
      if (bias != nullptr) value += bias[i];
    }
    StoreAs(value, out + i);
  }
}

template <typename T>
absl::StatusOr<const void*> Prepare(Device& device, const RowSource& source) {
  const auto [rows, width] = source.x.shape;
  const int64_t stride = RowStride(width), blocks = std::max(rows, source.chunk_rows);
  absl::StatusOr<T*> out = AsCuda(device).Scratch<T>(0, blocks * stride);
  if (!out.ok()) return out.status();
  const absl::Status status =
      Launch("PrepareRows", device, {.blocks = blocks, .threads = kThreads, .overlaps = true},
             PrepareRowsKernel<T>, source.x.data, rows, source.gate, source.norm.has_value(),
             source.norm.value_or(Norm::kRms), source.gain, source.bias, width, stride, *out);
  if (!status.ok()) return status;
  return *out;
}

}  // namespace

absl::StatusOr<const void*> PrepareRows(Device& device, const RowSource& source, DType dtype) {
  return dtype == DType::kFloat32 ? Prepare<float>(device, source)
                                  : Prepare<BFloat16>(device, source);
}

}  // namespace tvq::TVQ_CUDA
