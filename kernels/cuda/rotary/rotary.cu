// Rotary positions (kernels/ops/rotary.h): angles of rows, then queries, keys and values of what
// was projected. positions [N], angles [N, R], projected [N, H K + G K + G V].
//
// Angles: a block a row, their functions float64 as on the CPU. Heads: a warp a head of q, k or v
// of a row, so that the sums of a norm have one order; moves every number of `projected` in once,
// twice where heads are normed, and out once.
#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/ops/rotary.h"

namespace tvq::TVQ_CUDA {
namespace {

__global__ void __launch_bounds__(kWarp)
    AnglesKernel(const int64_t* positions, const float* frequencies, int half, float* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const auto position = static_cast<float>(positions[blockIdx.x]);
  float* row = out + static_cast<int64_t>(blockIdx.x) * 2 * half;
  for (int i = LaneId(); i < half; i += kWarp) {
    const double angle = position * frequencies[i];
    row[i] = static_cast<float>(std::cos(angle));
    row[half + i] = static_cast<float>(std::sin(angle));
  }
}

struct Heads {
  const float* projected;
  const float* q_gain;
  const float* k_gain;
  const float* angles;
  float epsilon, scale;
  int turned, heads, kv_heads, key, value;
  float *q, *k, *v;
};

// What a number becomes before it is turned.
struct HeadNorm {
  const float* gain;
  float factor;

  __device__ float operator()(const float* x, int i) const {
    return gain == nullptr ? x[i] : x[i] * factor * gain[i];
  }
};

__device__ void TurnHead(const Heads& args, const float* x, const float* gain, const float* angles,
                         float scale, float* out) {
  HeadNorm norm{gain, 1};
  if (gain != nullptr) {
    float squares = 0;
    for (int i = LaneId(); i < args.key; i += kWarp) squares = fmaf(x[i], x[i], squares);
    squares = WarpReduce(squares, Add());
    norm.factor = 1 / sqrtf(squares / static_cast<float>(args.key) + args.epsilon);
  }
  const int half = args.turned / 2;
  for (int i = LaneId(); i < half; i += kWarp) {
    const float cosine = angles[i], sine = angles[half + i];
    const float first = norm(x, i), second = norm(x, half + i);
    out[i] = fmaf(-second, sine, first * cosine) * scale;
    out[half + i] = fmaf(first, sine, second * cosine) * scale;
  }
  for (int i = args.turned + LaneId(); i < args.key; i += kWarp) out[i] = norm(x, i) * scale;
}

__global__ void __launch_bounds__(kWarp) HeadsKernel(Heads args) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t n = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y), keys = args.heads + args.kv_heads;
  const int64_t width =
      static_cast<int64_t>(keys) * args.key + static_cast<int64_t>(args.kv_heads) * args.value;
  const float* row = args.projected + n * width;
  const float* angles = args.angles + n * args.turned;
  if (head < args.heads) {
    TurnHead(args, row + head * args.key, args.q_gain, angles, args.scale,
             args.q + (n * args.heads + head) * args.key);
  } else if (head < keys) {
    const int g = head - args.heads;
    TurnHead(args, row + head * args.key, args.k_gain, angles, 1,
             args.k + (n * args.kv_heads + g) * args.key);
  } else {
    const int g = head - keys;
    const float* x = row + keys * args.key + g * args.value;
    float* out = args.v + (n * args.kv_heads + g) * args.value;
    for (int i = LaneId(); i < args.value; i += kWarp) out[i] = x[i];
  }
}

}  // namespace

absl::Status CudaRotaryAngles(Device& device, const RotaryAnglesArgs& args) {
  if (args.out.size() == 0) return absl::OkStatus();
  return Launch("RotaryAngles", device,
                {.blocks = args.positions.size(), .threads = kWarp, .overlaps = true}, AnglesKernel,
                args.positions.data, args.frequencies.data,
                static_cast<int>(args.frequencies.size()), args.out.data);
}

absl::Status CudaRotaryHeads(Device& device, const RotaryHeadsArgs& args) {
  const auto [rows, heads, key] = args.q.shape;
  if (rows == 0) return absl::OkStatus();
  const int64_t kv_heads = args.k.dim(1);
  const Heads given{.projected = args.projected.data,
                    .q_gain = args.q_gain.data,
                    .k_gain = args.k_gain.data,
                    .angles = args.angles.data,
                    .epsilon = args.epsilon,
                    .scale = args.scale,
                    .turned = static_cast<int>(args.angles.dim(1)),
                    .heads = static_cast<int>(heads),
                    .kv_heads = static_cast<int>(kv_heads),
                    .key = static_cast<int>(key),
                    .value = static_cast<int>(args.v.dim(2)),
                    .q = args.q.data,
                    .k = args.k.data,
                    .v = args.v.data};
  return Launch(
      "RotaryHeads", device,
      {.blocks = rows, .blocks_y = heads + 2 * kv_heads, .threads = kWarp, .overlaps = true},
      HeadsKernel, given);
}

}  // namespace tvq::TVQ_CUDA
