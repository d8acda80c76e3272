// The selective scan of Mamba-2 (kernels/ops/recurrent/mamba_scan.h), by recurrence.cuh.
//
// Nothing is removed, so a row multiplies the matrix once. Reads 2 K + V floats of a row and a
// head, 2 V to finish.
#include "kernels/cuda/recurrent/recurrence.cuh"
#include "kernels/ops/recurrent/mamba_scan.h"

namespace tvq::TVQ_CUDA {
namespace {

struct Scan {
  static constexpr bool kRemoves = false;

  MambaShape shape;
  const float *projected, *convolved;
  const float *rate, *step_bias, *skip;
  float least_step, most_step;

  __device__ float Prepare(int64_t n, int h, const Prepared& prepared) const {
    const auto key = static_cast<int>(shape.key);
    const float* const in = convolved + n * shape.convolved() + shape.inner() +
                            h / (shape.heads / shape.groups) * shape.key;
    const float* const out = in + shape.groups * shape.key;
    const float step = projected[n * shape.projected() + shape.inner() + shape.convolved() + h];
    const float free = Softplus(step + step_bias[h]);  // NaN stays NaN
    const float dt = free < least_step ? least_step : free > most_step ? most_step : free;
    const float decay = expf(dt * rate[h]);
    for (int i = LaneId(); i < key; i += kWarp) {
      prepared(kW, i) = decay;
      prepared(kK, i) = in[i];
      prepared(kQ, i) = out[i];
    }
    return dt;
  }
  __device__ float Value(int64_t n, int h, int column) const {
    return convolved[n * shape.convolved() + h * shape.value + column];
  }
  __device__ void Finish(int64_t n, int h, float* y) const {
    const float* const z = projected + n * shape.projected() + h * shape.value;
    for (int i = LaneId(); i < shape.value; i += kWarp) {
      y[i] = (y[i] + skip[h] * Value(n, h, i)) * Silu(z[i]);
    }
  }
};

}  // namespace

absl::Status CudaMambaScan(Device& device, const MambaScanArgs& args) {
  const Scan op{.shape = args.shape,
                .projected = args.projected.data,
                .convolved = args.convolved.data,
                .rate = args.rate.data,
                .step_bias = args.step_bias.data,
                .skip = args.skip.data,
                .least_step = args.least_step,
                .most_step = args.most_step};
  return Recur("MambaScan", device, args.sessions, args.shape.key, args.out, op);
}

}  // namespace tvq::TVQ_CUDA
