// What happens to a product's sums on their way to memory.
#ifndef TVQ_KERNELS_CUDA_LINEAR_EPILOGUE_CUH_
#define TVQ_KERNELS_CUDA_LINEAR_EPILOGUE_CUH_

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/linear/linear_rows.h"
#include "kernels/ops/linear.h"

namespace tvq::TVQ_CUDA {

// y = act(scale * (s * sum + bias)) (+ y), s the scale of an int8 weight's row.
struct Epilogue {
  explicit Epilogue(const LinearRun& run)
      : scales(run.weight->scales.as<const float>()),
        bias(run.bias),
        scale(run.scale),
        accumulate(run.accumulate),
        column_count(run.column_count) {
    for (int c = 0; c < run.column_count; ++c) columns[c] = run.columns[c];
  }

  // What y held before, if sums are added to it; else 0.
  __device__ float Old(int64_t row, int64_t output) const {
    return accumulate ? *Place(ColumnsOf(output), row, output) : 0;
  }
  __device__ void Store(int64_t row, int64_t output, float sum, float old) const {
    const OutputColumns& to = ColumnsOf(output);
    if (scales != nullptr) sum *= scales[output];
    if (bias != nullptr) sum += bias[output];
    sum *= scale;
    if (to.activation == Activation::kSilu) sum = sum / (1 + expf(-sum));
    if (to.activation == Activation::kGelu) {
      const float z = kGeluScale * (sum + kGeluCubic * (sum * sum * sum));
      sum = sum / (1 + expf(-2 * z));
    }
    if (to.activation == Activation::kTanh) sum = tanhf(sum);
    if (to.activation == Activation::kSigmoid) sum = 1 / (1 + expf(-sum));
    if (to.activation == Activation::kSquaredRelu) sum = sum < 0 ? 0 : sum * sum;
    *Place(to, row, output) = accumulate ? old + sum : sum;
  }
  // Prefetches what Store will read of the weight.
  __device__ void Prefetch(int64_t output) const {
    if (scales != nullptr) AskFor(scales + output);
    if (bias != nullptr) AskFor(bias + output);
  }

  __device__ const OutputColumns& ColumnsOf(int64_t output) const {
    int c = 0;
    while (c + 1 < column_count && output >= columns[c + 1].first) ++c;
    return columns[c];
  }
  __device__ static float* Place(const OutputColumns& to, int64_t row, int64_t output) {
    return to.y + row * to.stride + output - to.first;
  }

  const float* scales;
  const float* bias;
  float scale;
  bool accumulate;
  OutputColumns columns[LinearRun::kMostColumns];
  int column_count;
};

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_LINEAR_EPILOGUE_CUH_
