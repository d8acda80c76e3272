// The time mixing of RWKV-7 (kernels/ops/recurrent/rwkv_time_mix.h), by recurrence.cuh.
//
// Reads 7 K floats of a row and a head (9 K with v_first), 3 K of them once more to finish.
#include "kernels/cuda/recurrent/recurrence.cuh"
#include "kernels/ops/recurrent/rwkv_time_mix.h"

namespace tvq::TVQ_CUDA {
namespace {

struct TimeMix {
  static constexpr bool kRemoves = true;

  const float *r, *k, *v, *decay, *rate, *gate;  // [N, H, K]
  const float *v_first, *v_mix;                  // [N, H, K], or null
  const float *k_k, *k_a, *r_k, *gain, *bias;    // [H, K]
  float epsilon;
  int heads, key;

  __device__ int64_t Place(int64_t n, int h) const { return (n * heads + h) * key; }
  // k' of channel i; `row` and `head` are the places of the first.
  __device__ float Key(int64_t row, int head, int i) const {
    return k[row + i] * (1 + (rate[row + i] - 1) * k_a[head + i]);
  }

  __device__ float Prepare(int64_t n, int h, const Prepared& prepared) const {
    const int64_t row = Place(n, h);
    const int head = h * key;
    const auto removal = [&](int i) { return k[row + i] * k_k[head + i]; };
    const float squares = WarpSum(key, [&](int i) { return removal(i) * removal(i); });
    const float length = sqrtf(squares);  // NaN stays NaN
    const float norm = length < kRwkvLeastNorm ? kRwkvLeastNorm : length;
    for (int i = LaneId(); i < key; i += kWarp) {
      const float a = removal(i) / norm;
      prepared(kW, i) = expf(kRwkvDecayScale * decay[row + i]);
      prepared(kA, i) = a;
      prepared(kB, i) = a * rate[row + i];
      prepared(kK, i) = Key(row, head, i);
      prepared(kQ, i) = r[row + i];
    }
    return 1;
  }
  __device__ float Value(int64_t n, int h, int column) const {
    const int64_t at = Place(n, h) + column;
    return v_first == nullptr ? v[at] : v[at] + (v_first[at] - v[at]) * v_mix[at];
  }
  __device__ void Finish(int64_t n, int h, float* y) const {
    const int64_t row = Place(n, h);
    const int head = h * key;
    const auto count = static_cast<float>(key);
    const float mean = WarpSum(key, [&](int i) { return y[i]; }) / count;
    const float squares =
        WarpSum(key, [&](int i) { return (y[i] - mean) * (y[i] - mean); }) / count;
    const float bonus =
        WarpSum(key, [&](int i) { return r[row + i] * Key(row, head, i) * r_k[head + i]; });
    const float deviation = sqrtf(squares + epsilon);
    for (int i = LaneId(); i < key; i += kWarp) {
      const float normed = (y[i] - mean) / deviation * gain[head + i] + bias[head + i];
      y[i] = (normed + bonus * Value(n, h, i)) * gate[row + i];
    }
  }
};

}  // namespace

absl::Status CudaRwkvTimeMix(Device& device, const RwkvTimeMixArgs& args) {
  const int64_t key = args.r.dim(2);
  const TimeMix op{.r = args.r.data,
                   .k = args.k.data,
                   .v = args.v.data,
                   .decay = args.decay.data,
                   .rate = args.rate.data,
                   .gate = args.gate.data,
                   .v_first = args.v_first.data,
                   .v_mix = args.v_mix.data,
                   .k_k = args.k_k.data,
                   .k_a = args.k_a.data,
                   .r_k = args.r_k.data,
                   .gain = args.gain.data,
                   .bias = args.bias.data,
                   .epsilon = args.epsilon,
                   .heads = static_cast<int>(args.r.dim(1)),
                   .key = static_cast<int>(key)};
  return Recur("RwkvTimeMix", device, args.sessions, key, args.out, op);
}

}  // namespace tvq::TVQ_CUDA
