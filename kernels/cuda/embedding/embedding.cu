// out[n] = table[ids[n]] (+ scale * sinusoid of positions[n]). ids [N], table [vocab, D], out [N,
// D].
//
// Moves N D elements of the table in and N D floats out. Each row has a block. Angles are float64,
// as on the CPU: at position 1e6 a float32 angle would be off by up to 0.03.
#include "kernels/cuda/common/kernel.cuh"
#include "kernels/numbers/bfloat16.h"
#include "kernels/ops/embedding.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kThreads = 256;

// An element as float32; for an int8 table, times the row's scale.
__device__ inline float Value(float element, float) { return element; }
__device__ inline float Value(BFloat16 element, float) { return ToFloat(element); }
__device__ inline float Value(int8_t element, float scale) {
  return scale * static_cast<float>(element);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    EmbeddingKernel(const T* table, const float* scales, const int32_t* ids,
                    const int64_t* positions, float scale, double lam, int64_t width, float* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t n = blockIdx.x;
  const T* row = table + ids[n] * width;
  const float row_scale = scales == nullptr ? 1 : scales[ids[n]];
  const int64_t half = width / 2;
  for (int64_t c = threadIdx.x; c < width; c += kThreads) {
    float value = Value(row[c], row_scale);
    if (scale != 0) {
      const double exponent = -2.0 * static_cast<double>(c % half) / static_cast<double>(width);
      const double angle = static_cast<double>(positions[n]) * std::pow(lam, exponent);
      value += scale * static_cast<float>(c < half ? std::sin(angle) : std::cos(angle));
    }
    out[n * width + c] = value;
  }
}

template <typename T>
absl::Status Run(Device& device, const EmbeddingArgs& args) {
  return Launch(
      "Embedding", device, {.blocks = args.ids.dim(0), .threads = kThreads, .overlaps = true},
      EmbeddingKernel<T>, static_cast<const T*>(args.table), args.scales.data, args.ids.data,
      args.positions.data, args.position_scale, args.position_lam, args.out.dim(1), args.out.data);
}

}  // namespace

absl::Status CudaEmbedding(Device& device, const EmbeddingArgs& args) {
  if (args.out.size() == 0) return absl::OkStatus();
  switch (args.dtype) {
    case DType::kFloat32:
      return Run<float>(device, args);
    case DType::kBFloat16:
      return Run<BFloat16>(device, args);
    case DType::kInt8:
      return Run<int8_t>(device, args);
    case DType::kInt4:
      break;
  }
  return absl::InternalError("Embedding: no such dtype");
}

}  // namespace tvq::TVQ_CUDA
