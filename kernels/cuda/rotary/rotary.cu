// Rotary positions (kernels/ops/rotary.h): angles of rows, then queries, keys and values of what
// was projected. positions [N], angles [N, R], projected [N, columns].
//
// Angles: each row has a block; the functions are float64 as on the CPU. Rows of a table: each row
// has a block. Heads: each head of q, k or v of a row has a warp, so that the sums of a norm have
// one order. It reads every number of `projected` once, once more where heads are normed and for
// each further output, and writes it once for each output.
#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/ops/rotary.h"

namespace tvq::TVQ_CUDA {
namespace {

__global__ void __launch_bounds__(kWarp)
    AnglesKernel(const int64_t* positions, const float* frequencies, int half, bool exact,
                 float* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t position = positions[blockIdx.x];
  float* row = out + static_cast<int64_t>(blockIdx.x) * 2 * half;
  for (int i = LaneId(); i < half; i += kWarp) {
    const float frequency = frequencies[i];
    const double angle = exact ? static_cast<double>(position) * frequency
                               : static_cast<float>(position) * frequency;
    row[i] = static_cast<float>(std::cos(angle));
    row[half + i] = static_cast<float>(std::sin(angle));
  }
}

__global__ void __launch_bounds__(kWarp)
    PositionRowsKernel(const int64_t* positions, int64_t first, const float* table, int64_t rows,
                       int64_t columns, float* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t n = blockIdx.x, behind = positions[n] - first;
  const int64_t row = behind < 0 ? 0 : behind < rows ? behind : rows - 1;
  for (int64_t i = LaneId(); i < columns; i += kWarp) {
    out[n * columns + i] = table[row * columns + i];
  }
}

struct Heads {
  const float* projected;  // from the first of q on, rows `columns` apart
  int64_t columns;
  const float* q_gain;
  const float* k_gain;
  const float* angles;
  float epsilon, scale;
  int turned, heads, kv_heads, key, value;
  float *q, *k, *v;

  // Null where there are none.
  const float* far_angles;
  const float* sink_angles;
  float *q_far, *q_sink, *k_plain;
};

// A head before it is turned, x [key], which all lanes of a warp share.
struct Head {
  const float* x;
  const float* gain;
  int key;
  float factor = 1;

  __device__ Head(const Heads& args, const float* from, const float* by)
      : x(from), gain(by), key(args.key) {
    if (gain == nullptr) return;
    float squares = 0;
    for (int i = LaneId(); i < key; i += kWarp) squares = fmaf(x[i], x[i], squares);
    squares = WarpReduce(squares, Add());
    factor = 1 / sqrtf(squares / static_cast<float>(key) + args.epsilon);
  }

  __device__ float operator[](int i) const {
    return gain == nullptr ? x[i] : x[i] * factor * gain[i];
  }

  // Turns the first `turned` numbers by the angles, and multiplies all numbers by scale.
  __device__ void Turn(const float* angles, int turned, float scale, float* out) const {
    const int half = turned / 2;
    for (int i = LaneId(); i < half; i += kWarp) {
      const float cosine = angles[i], sine = angles[half + i];
      const float first = (*this)[i], second = (*this)[half + i];
      out[i] = fmaf(-second, sine, first * cosine) * scale;
      out[half + i] = fmaf(first, sine, second * cosine) * scale;
    }
    for (int i = turned + LaneId(); i < key; i += kWarp) out[i] = (*this)[i] * scale;
  }
};

__device__ void TurnQuery(const Heads& args, const float* x, int64_t n, int h) {
  const Head head(args, x, args.q_gain);
  const int64_t at = (n * args.heads + h) * args.key, row = n * args.turned;
  head.Turn(args.angles + row, args.turned, args.scale, args.q + at);
  if (args.q_far == nullptr) return;
  head.Turn(args.far_angles + row, args.turned, args.scale, args.q_far + at);
  if (args.q_sink == nullptr) return;
  head.Turn(args.sink_angles, args.turned, args.scale, args.q_sink + at);
}

__device__ void TurnKey(const Heads& args, const float* x, int64_t n, int g) {
  const Head head(args, x, args.k_gain);
  const int64_t at = (n * args.kv_heads + g) * args.key;
  head.Turn(args.angles + n * args.turned, args.turned, 1, args.k + at);
  if (args.k_plain != nullptr) head.Turn(nullptr, 0, 1, args.k_plain + at);
}

__global__ void __launch_bounds__(kWarp) HeadsKernel(Heads args) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t n = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y), keys = args.heads + args.kv_heads;
  const float* row = args.projected + n * args.columns;
  if (head < args.heads) {
    TurnQuery(args, row + head * args.key, n, head);
  } else if (head < keys) {
    TurnKey(args, row + head * args.key, n, head - args.heads);
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
                static_cast<int>(args.frequencies.size()), args.exact, args.out.data);
}

absl::Status CudaPositionRows(Device& device, const PositionRowsArgs& args) {
  if (args.out.size() == 0) return absl::OkStatus();
  return Launch("PositionRows", device,
                {.blocks = args.positions.size(), .threads = kWarp, .overlaps = true},
                PositionRowsKernel, args.positions.data, args.first, args.table.data,
                args.table.dim(0), args.table.dim(1), args.out.data);
}

absl::Status CudaRotaryHeads(Device& device, const RotaryHeadsArgs& args) {
  const auto [rows, heads, key] = args.q.shape;
  if (rows == 0) return absl::OkStatus();
  const int64_t kv_heads = args.k.dim(1);
  const Heads given{.projected = args.projected.data + args.column,
                    .columns = args.projected.dim(1),
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
                    .v = args.v.data,
                    .far_angles = args.far_angles.data,
                    .sink_angles = args.sink_angles.data,
                    .q_far = args.q_far.data,
                    .q_sink = args.q_sink.data,
                    .k_plain = args.k_plain.data};
  return Launch(
      "RotaryHeads", device,
      {.blocks = rows, .blocks_y = heads + 2 * kv_heads, .threads = kWarp, .overlaps = true},
      HeadsKernel, given);
}

}  // namespace tvq::TVQ_CUDA
