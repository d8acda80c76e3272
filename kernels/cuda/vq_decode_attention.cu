// Attention of one new position of each of N sessions over its constant-size state, all rows of
// which are read exactly; vq_reduced.cuh has what else there is.
//
//   w_s = exp(code_score[s] - m) for codes with n[s] > 0      w_d = exp(score of distance d - m)
//   out = (sum_s w_s U[s] + sum_d w_d v_d) / (sum_s w_s n[s] + sum_d w_d)
//
// Two kernels. The first lets the positions enter their states and computes weights, beside each
// other: a thread a column retires the value that leaves the window into U and its carry (3 V in
// and out, a value of the window among them) and puts the new one in its place; a block a session
// and head turns S + W scores into as many weights and one denominator, as the codes and counts
// will stand. The second reads values: every row of U (4 V bytes) and of the window (2 or 4 V) once
// per head, which is nearly all that moves; a block takes 64 rows and 128 columns, so that even one
// session fills the GPU, rows of weight 0 are not read, and the last block to arrive adds the
// partial sums of the blocks in their order. It also writes the codes and counts down, which nobody
// reads by then. Shapes alone decide on splits: a session's bits do not depend on N.
#include "kernels/cuda/tickets.cuh"
#include "kernels/cuda/vq_decode.cuh"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kPerLane = 4;                 // columns
constexpr int kColumns = kWarp * kPerLane;  // of a block

__host__ __device__ inline int64_t ColumnBlocks(const VqDecode& args) {
  return (args.shape.value + kColumns - 1) / kColumns;
}
// A thread appends a column.
__host__ __device__ inline int64_t AppendBlocks(const VqDecode& args) {
  return (args.shape.value + kStartThreads - 1) / kStartThreads;
}

// Blocks of session y: weights of a head each, then columns of a key/value head each.
template <typename T>
__global__ void __launch_bounds__(kStartThreads) StartKernel(VqDecode args) {
  struct Shared {
    float partial[kStartThreads / kWarp];
  };
  const int64_t n = blockIdx.y, block = blockIdx.x;
  LetSuccessorBegin();
  WaitForPredecessor();
  if (args.states[n].none()) return;
  if (block < args.heads) {
    const float sum = ComputeWeights(args, n, block, BlockShared<Shared>().partial);
    if (threadIdx.x == 0) args.denominator[n * args.heads + block] = sum;
    return;
  }
  const int64_t g = (block - args.heads) / AppendBlocks(args);
  const int64_t c = (block - args.heads) % AppendBlocks(args) * kStartThreads + threadIdx.x;
  if (c < args.shape.value) AppendValue<T>(args, n, g, c);
}

// kAligned: see LoadRow.
template <typename T, bool kAligned>
__global__ void __launch_bounds__(kReadThreads) ValuesKernel(VqDecode args) {
  struct Shared {
    float weight[kReadRows];
    float sum[kReadWarps][kColumns];
    uint32_t ticket;
  };
  LetSuccessorBegin();
  WaitForPredecessor();
  Shared& shared = BlockShared<Shared>();
  const int64_t splits = args.Splits(), rows = args.Rows(), values = args.shape.value;
  const int64_t split = blockIdx.x % splits;
  const int64_t column_block = static_cast<int64_t>(blockIdx.x) / splits;
  const int64_t first = column_block * kColumns, column = first + LaneId() * kPerLane;
  const int64_t n = blockIdx.y / args.heads, h = blockIdx.y % args.heads;
  const int64_t shared_by = args.heads / args.shape.kv_heads, g = h / shared_by;
  const int64_t output = n * args.heads + h;
  const VqState& state = args.states[n];
  // A thread a column, from here on: the block's 128.
  const int64_t own = first + threadIdx.x;
  const bool owns = threadIdx.x < kColumns && own < values;
  if (state.none()) {
    if (split == 0 && owns) args.out[output * values + own] = 0;
    return;
  }
  if (blockIdx.x == 0 && h % shared_by == 0 && threadIdx.x == 0) EnterCode(args, n, g);
  const float* sums = state.sum + g * args.shape.codes * values;
  const T* window = static_cast<const T*>(state.window_value) + g * args.shape.window * values;

  const float* weights = args.weights + output * rows;
  for (int i = static_cast<int>(threadIdx.x); i < kReadRows; i += kReadThreads) {
    const int64_t row = split * kReadRows + i;
    shared.weight[i] = row < rows ? weights[row] : 0;
  }
  __syncthreads();

  // All loads of a lane are on their way before the first is used.
  float sum[kPerLane] = {};
  if (column < values) {
    float weight[kReadRowsPerWarp], value[kReadRowsPerWarp][kPerLane];
#pragma unroll
    for (int i = 0; i < kReadRowsPerWarp; ++i) {
      const int at = i * kReadWarps + WarpId();
      const int64_t row = split * kReadRows + at;
      weight[i] = shared.weight[at];
      if (weight[i] == 0) {
        for (float& v : value[i]) v = 0;
      } else if (row < args.shape.codes) {
        LoadRow<kPerLane, kAligned>(sums + row * values + column, values - column, value[i]);
      } else {
        LoadRow<kPerLane, kAligned>(window + (row - args.shape.codes) * values + column,
                                    values - column, value[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kReadRowsPerWarp; ++i) {
#pragma unroll
      for (int c = 0; c < kPerLane; ++c) sum[c] = fmaf(weight[i], value[i][c], sum[c]);
    }
  }
  for (int c = 0; c < kPerLane; ++c) shared.sum[WarpId()][LaneId() * kPerLane + c] = sum[c];
  __syncthreads();
  float* partial = args.partial + output * splits * values + own;
  if (owns) {
    float total = shared.sum[0][threadIdx.x];
    for (int warp = 1; warp < kReadWarps; ++warp) total += shared.sum[warp][threadIdx.x];
    partial[split * values] = total;
  }
  uint32_t* ticket = args.tickets + output * ColumnBlocks(args) + column_block;
  if (!LastToArrive(ticket, splits, shared.ticket) || !owns) return;
  float total = partial[0];
  for (int64_t s = 1; s < splits; ++s) total += partial[s * values];
  args.out[output * values + own] = total / args.denominator[output];
}

template <typename T>
absl::Status Run(Device& device, const VqDecode& args, int64_t sessions) {
  const absl::Status status =
      Launch("VqDecodeStart", device,
             {.blocks = args.heads + args.shape.kv_heads * AppendBlocks(args),
              .blocks_y = sessions,
              .threads = kStartThreads,
              .overlaps = true},
             StartKernel<T>, args);
  if (!status.ok()) return status;
  const LaunchShape shape{.blocks = ColumnBlocks(args) * args.Splits(),
                          .blocks_y = sessions * args.heads,
                          .threads = kReadThreads,
                          .overlaps = true};
  return args.shape.value % kPerLane == 0
             ? Launch("VqDecodeValues", device, shape, ValuesKernel<T, true>, args)
             : Launch("VqDecodeValues", device, shape, ValuesKernel<T, false>, args);
}

}  // namespace

absl::Status CudaVqDecodeAttention(Device& device, const VqDecodeAttentionArgs& args) {
  const int64_t sessions = args.code_scores.dim(0), heads = args.code_scores.dim(1);
  if (sessions == 0) return absl::OkStatus();
  VqDecode decode{.shape = args.shape,
                  .states = args.states.data,
                  .positions = args.positions.data,
                  .heads = heads,
                  .code_scores = args.code_scores.data,
                  .position_scores = args.position_scores.data,
                  .codes = args.codes.data,
                  .v = args.v.data,
                  .out = args.out.data};
  if (args.shape.read != VqRead::kExact || args.skip_mass > 0) {
    return RunReducedDecode(device, args, decode);
  }
  if (!args.skipped_mass.empty() || !args.row_reads.empty()) {
    if (absl::Status s = ReportWholeReads(device, args, decode); !s.ok()) return s;
  }
  const int64_t rows = sessions * heads;
  CudaDevice& cuda = AsCuda(device);
  absl::StatusOr<float*> weights = cuda.Scratch<float>(1, rows * (decode.Rows() + 1));
  if (!weights.ok()) return weights.status();
  absl::StatusOr<float*> partial =
      cuda.Scratch<float>(2, rows * decode.Splits() * args.shape.value);
  if (!partial.ok()) return partial.status();
  absl::StatusOr<uint32_t*> tickets = cuda.Tickets(rows * ColumnBlocks(decode));
  if (!tickets.ok()) return tickets.status();
  decode.weights = *weights;
  decode.denominator = *weights + rows * decode.Rows();
  decode.partial = *partial;
  decode.tickets = *tickets;
  return args.shape.value_dtype == DType::kFloat32 ? Run<float>(device, decode, sessions)
                                                   : Run<BFloat16>(device, decode, sessions);
}

}  // namespace tvq::TVQ_CUDA
