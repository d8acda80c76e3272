// What becomes of a product's sums on their way to memory.
#ifndef TVQ_KERNELS_CUDA_EPILOGUE_CUH_
#define TVQ_KERNELS_CUDA_EPILOGUE_CUH_

#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/linear_rows.h"

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

  __device__ void Store(int64_t row, int64_t output, float sum) const {
    int c = 0;
    while (c + 1 < column_count && output >= columns[c + 1].first) ++c;
    if (scales != nullptr) sum *= scales[output];
    if (bias != nullptr) sum += bias[output];
    sum *= scale;
    if (columns[c].activation == Activation::kSilu) sum = sum / (1 + expf(-sum));
    if (columns[c].activation == Activation::kGelu) {
      const float z = kGeluScale * (sum + kGeluCubic * (sum * sum * sum));
      sum = sum / (1 + expf(-2 * z));
    }
    float* y = columns[c].y + row * columns[c].stride + output - columns[c].first;
    *y = accumulate ? *y + sum : sum;
  }

  const float* scales;
  const float* bias;
  float scale;
  bool accumulate;
  OutputColumns columns[LinearRun::kMostColumns];
  int column_count;
};

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_EPILOGUE_CUH_
