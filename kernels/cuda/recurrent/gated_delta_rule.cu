// The gated delta rule (kernels/ops/recurrent/gated_delta_rule.h), by recurrence.cuh.
//
// The block of each tile reads and norms the key and the query of its head for itself.
#include "kernels/cuda/recurrent/recurrence.cuh"
#include "kernels/ops/recurrent/gated_delta_rule.h"

namespace tvq::TVQ_CUDA {
namespace {

struct DeltaRule {
  static constexpr bool kRemoves = true;

  GatedDeltaShape shape;
  const float *projected, *convolved;
  const float *rate, *decay_bias, *gain;
  float epsilon;
  float query_scale;  // K^(-1/2)

  __device__ int64_t Keys() const { return shape.key_heads * shape.key; }
  // Behind the columns that are convolved: z, strength, decay.
  __device__ const float* Gates(int64_t n) const {
    return projected + n * shape.projected() + shape.convolved();
  }

  __device__ float Prepare(int64_t n, int h, const Prepared& prepared) const {
    const auto key = static_cast<int>(shape.key);
    const float* const q =
        convolved + n * shape.convolved() + h / (shape.heads / shape.key_heads) * shape.key;
    const float* const k = q + Keys();
    const float* const strength = Gates(n) + shape.heads * shape.value;
    const float* const decay = strength + shape.heads;
    const float query_norm =
        sqrtf(WarpSum(key, [&](int i) { return q[i] * q[i]; }) + kDeltaNormEpsilon);
    const float key_norm =
        sqrtf(WarpSum(key, [&](int i) { return k[i] * k[i]; }) + kDeltaNormEpsilon);
    const float alpha = expf(rate[h] * Softplus(decay[h] + decay_bias[h]));
    const float beta = Sigmoid(strength[h]);
    for (int i = LaneId(); i < key; i += kWarp) {
      const float unit = k[i] / key_norm;
      prepared(kW, i) = alpha;
      prepared(kA, i) = unit;
      prepared(kB, i) = alpha * beta * unit;
      prepared(kK, i) = unit;
      prepared(kQ, i) = q[i] / query_norm * query_scale;
    }
    return beta;
  }
  __device__ float Value(int64_t n, int h, int column) const {
    return convolved[n * shape.convolved() + 2 * Keys() + h * shape.value + column];
  }
  __device__ void Finish(int64_t n, int h, float* y) const {
    const auto value = static_cast<int>(shape.value);
    const float* const z = Gates(n) + h * shape.value;
    const float squares = WarpSum(value, [&](int i) { return y[i] * y[i]; });
    const float root = sqrtf(squares / static_cast<float>(value) + epsilon);
    for (int i = LaneId(); i < value; i += kWarp) y[i] = y[i] / root * gain[i] * Silu(z[i]);
  }
};

}  // namespace

absl::Status CudaGatedDeltaRule(Device& device, const GatedDeltaRuleArgs& args) {
  const DeltaRule op{.shape = args.shape,
                     .projected = args.projected.data,
                     .convolved = args.convolved.data,
                     .rate = args.rate.data,
                     .decay_bias = args.decay_bias.data,
                     .gain = args.gain.data,
                     .epsilon = args.epsilon,
                     .query_scale = 1 / std::sqrt(static_cast<float>(args.shape.key))};
  return Recur("GatedDeltaRule", device, args.sessions, args.shape.key, args.out, op);
}

}  // namespace tvq::TVQ_CUDA
