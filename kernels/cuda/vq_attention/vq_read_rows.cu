// Reads the values of the rows of a list (vq_choose_rows.cu), those of the int8 copy or the exact
// ones.
//
// There is one kernel. A block takes 64 rows of the list and 512 columns of the copy, or 128 exact
// ones, 16 bytes for each lane. It starts all loads before the first is used, and multiplies the
// rows with the weights of every head that shares them. The last block to arrive adds the partial
// sums of the blocks in their order. Bytes per session and key/value head: 17/16 V for a row of the
// copy that is read; 4 V for an exact row of U, and 2 or 4 V for one of the window. Splits follow
// from a session's list alone: its bits do not depend on N. The grid is that of a list of all rows,
// so that a recorded step fits any list; blocks behind the end of the list have nothing to do.
#include "kernels/cuda/common/int8.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/tickets.cuh"
#include "kernels/cuda/vq_attention/vq_reduced.cuh"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq::TVQ_CUDA {
namespace {

// A lane's columns of a row of the copy.
struct CopiedRow {
  static constexpr int kPerLane = 16;
  uint32_t four[kPerLane / 4];
  float scale;

  template <bool kAligned>
  __device__ void Load(const VqShape& shape, const VqState& state, int64_t g, int64_t row,
                       int64_t column) {
    const bool recent = row >= shape.codes;
    const int64_t at = recent ? g * shape.window + row - shape.codes : g * shape.codes + row;
    const int8_t* from = (recent ? state.recent : state.mean) + at * shape.value + column;
    scale = (recent ? state.recent_scale
                    : state.mean_scale)[at * shape.scales() + column / kVqScaleColumns];
    if constexpr (kAligned) {
      const uint4 all = LoadStreamed(reinterpret_cast<const uint4*>(from));
      four[0] = all.x;
      four[1] = all.y;
      four[2] = all.z;
      four[3] = all.w;
    } else {
      for (uint32_t i = 0; i < kPerLane; ++i) {
        const uint32_t byte = column + i < shape.value ? static_cast<uint8_t>(from[i]) : 0;
        four[i / 4] = (i % 4 == 0 ? 0 : four[i / 4]) | byte << 8 * (i % 4);
      }
    }
  }

  __device__ void AddTo(float weight, float (&sum)[kPerLane]) const {
    const float factor = weight * scale;
#pragma unroll
    for (int word = 0; word < kPerLane / 4; ++word) {
      const uint32_t bytes = WidenedHere(four[word]);
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        sum[4 * word + i] = fmaf(factor, WidenByte(bytes, i), sum[4 * word + i]);
      }
    }
  }
};
static_assert(kVqScaleColumns % CopiedRow::kPerLane == 0);

// A lane's columns of an exact row, where the window holds T.
template <typename T>
struct ExactRow {
  static constexpr int kPerLane = 4;
  float value[kPerLane];

  template <bool kAligned>
  __device__ void Load(const VqShape& shape, const VqState& state, int64_t g, int64_t row,
                       int64_t column) {
    const int64_t left = shape.value - column;
    if (row < shape.codes) {
      LoadRow<kPerLane, kAligned>(state.sum + (g * shape.codes + row) * shape.value + column, left,
                                  value);
    } else {
      const T* window = static_cast<const T*>(state.window_value);
      const int64_t slot = g * shape.window + row - shape.codes;
      LoadRow<kPerLane, kAligned>(window + slot * shape.value + column, left, value);
    }
  }

  __device__ void AddTo(float weight, float (&sum)[kPerLane]) const {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) sum[i] = fmaf(weight, value[i], sum[i]);
  }
};

template <typename Row>
__host__ __device__ inline int64_t ColumnBlocks(const VqShape& shape) {
  constexpr int64_t kColumns = kWarp * Row::kPerLane;
  return (shape.value + kColumns - 1) / kColumns;
}

// The sums of a block lie in this order of columns: the first of every lane, then the second of
// every lane, and so on. kAligned: V is a multiple of Row::kPerLane.
template <typename Row, bool kAligned>
__global__ void __launch_bounds__(kReadThreads) ReducedValuesKernel(VqReduced args) {
  constexpr int kPerLane = Row::kPerLane, kColumns = kWarp * kPerLane;
  struct Shared {
    int32_t row[kReadRows];
    float weight[kReadRows];
    float sum[kReadWarps][kColumns];
    uint32_t ticket;
  };
  LetSuccessorBegin();
  WaitForPredecessor();
  Shared& shared = BlockShared<Shared>();
  const VqDecode& decode = args.decode;
  const VqShape& shape = decode.shape;
  const int64_t splits = decode.Splits(), rows = decode.Rows(), shared_by = args.SharedBy();
  const int64_t split = blockIdx.x % splits;
  const int64_t column_block = static_cast<int64_t>(blockIdx.x) / splits;
  const int64_t n = blockIdx.y / args.KvHeads(), g = blockIdx.y % args.KvHeads();
  const int64_t unit = blockIdx.y, first_head = n * decode.heads + g * shared_by;
  const int64_t first = column_block * kColumns, own = first + LaneId() * kPerLane;
  const VqState state = decode.states[n];
  // Calls visit(i, column) for the thread's part of a block's sums.
  const auto for_own = [&](const auto& visit) {
    for (int i = static_cast<int>(threadIdx.x); i < kColumns; i += kReadThreads) {
      const int64_t c = first + i % kWarp * kPerLane + i / kWarp;
      if (c < shape.value) visit(i, c);
    }
  };
  if (state.none()) {
    if (split != 0) return;
    for (int64_t head = first_head; head < first_head + shared_by; ++head) {
      for_own([&](int, int64_t c) { decode.out[head * shape.value + c] = 0; });
    }
    return;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) EnterCode(decode, n, g);
  const int64_t length = args.length[unit], used = (length + kReadRows - 1) / kReadRows;
  if (split >= used) return;
  // Behind the end of the list its last row is read again, with weight 0. Behind the end of a row
  // its first columns are read but not added up. So all loads start before the first is used.
  const int64_t left = length - split * kReadRows;
  for (int i = static_cast<int>(threadIdx.x); i < kReadRows; i += kReadThreads) {
    shared.row[i] = args.list[unit * rows + split * kReadRows + (i < left ? i : left - 1)];
  }
  __syncthreads();
  const int64_t column = own < shape.value ? own : 0;
  Row row[kReadRowsPerWarp];
#pragma unroll
  for (int i = 0; i < kReadRowsPerWarp; ++i) {
    row[i].template Load<kAligned>(shape, state, g, shared.row[i * kReadWarps + WarpId()], column);
  }
  const auto partial = [&](int64_t head) {
    return decode.partial + ((head * ColumnBlocks<Row>(shape) + column_block) * splits) * kColumns;
  };
  for (int64_t head = first_head; head < first_head + shared_by; ++head) {
    for (int i = static_cast<int>(threadIdx.x); i < kReadRows; i += kReadThreads) {
      shared.weight[i] = i < left ? decode.weights[head * rows + shared.row[i]] : 0;
    }
    __syncthreads();
    float sum[kPerLane] = {};
#pragma unroll
    for (int i = 0; i < kReadRowsPerWarp; ++i) {
      row[i].AddTo(shared.weight[i * kReadWarps + WarpId()], sum);
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) shared.sum[WarpId()][i * kWarp + LaneId()] = sum[i];
    __syncthreads();
    for_own([&](int i, int64_t) {
      float total = shared.sum[0][i];
      for (int warp = 1; warp < kReadWarps; ++warp) total += shared.sum[warp][i];
      partial(head)[split * kColumns + i] = total;
    });
  }
  uint32_t* ticket = decode.tickets + unit * ColumnBlocks<Row>(shape) + column_block;
  if (!LastToArrive(ticket, used, shared.ticket)) return;
  for (int64_t head = first_head; head < first_head + shared_by; ++head) {
    const float denominator = decode.denominator[head];
    for_own([&](int i, int64_t c) {
      const float* sums = partial(head) + i;
      float total = sums[0];
      for (int64_t s = 1; s < used; ++s) total += sums[s * kColumns];
      decode.out[head * shape.value + c] = total / denominator;
    });
  }
}

// Takes the memory for what the kernels leave to one another, and runs them.
template <typename Row>
absl::Status Read(Device& device, VqReduced& args, int64_t sessions) {
  constexpr bool kCopy = std::is_same_v<Row, CopiedRow>;
  constexpr int64_t kColumns = kWarp * Row::kPerLane;
  VqDecode& decode = args.decode;
  CudaDevice& cuda = AsCuda(device);
  const int64_t units = sessions * args.KvHeads(), outputs = sessions * decode.heads;
  const int64_t column_blocks = ColumnBlocks<Row>(decode.shape), weights = outputs * decode.Rows();
  const absl::StatusOr<float*> floats =
      cuda.Scratch<float>(1, weights * (kCopy ? 1 : 2) + 2 * outputs);
  if (!floats.ok()) return floats.status();
  decode.weights = *floats;
  args.shares = kCopy ? decode.weights : decode.weights + weights;
  decode.denominator = args.shares + weights;
  args.threshold = decode.denominator + outputs;
  const absl::StatusOr<float*> partial =
      cuda.Scratch<float>(2, outputs * decode.Splits() * column_blocks * kColumns);
  if (!partial.ok()) return partial.status();
  decode.partial = *partial;
  const absl::StatusOr<int32_t*> list = cuda.Scratch<int32_t>(3, units * (decode.Rows() + 1));
  if (!list.ok()) return list.status();
  args.list = *list;
  args.length = *list + units * decode.Rows();
  const absl::StatusOr<uint8_t*> kept = cuda.Scratch<uint8_t>(4, units * decode.Rows());
  if (!kept.ok()) return kept.status();
  args.kept = *kept;
  const absl::StatusOr<uint32_t*> tickets = cuda.Tickets(units * column_blocks);
  if (!tickets.ok()) return tickets.status();
  decode.tickets = *tickets;

  if (absl::Status s = ChooseVqRows(device, args, sessions); !s.ok()) return s;
  const LaunchShape shape{.blocks = column_blocks * decode.Splits(),
                          .blocks_y = units,
                          .threads = kReadThreads,
                          .overlaps = true};
  return decode.shape.value % Row::kPerLane == 0
             ? Launch("VqReducedValues", device, shape, ReducedValuesKernel<Row, true>, args)
             : Launch("VqReducedValues", device, shape, ReducedValuesKernel<Row, false>, args);
}

}  // namespace

absl::Status RunReducedDecode(Device& device, const VqDecodeAttentionArgs& args,
                              const VqDecode& decode) {
  VqReduced reduced = MakeReduced(args, decode);
  const int64_t sessions = args.code_scores.dim(0);
  if (args.shape.read == VqRead::kInt8) return Read<CopiedRow>(device, reduced, sessions);
  return args.shape.value_dtype == DType::kFloat32
             ? Read<ExactRow<float>>(device, reduced, sessions)
             : Read<ExactRow<BFloat16>>(device, reduced, sessions);
}

}  // namespace tvq::TVQ_CUDA
