// y = act(scale * (s (x W^T) + bias)) (+ y), s a scale for each output where W is int8.
// x [N, in], W [out, in], y [N, out].
//
// W, out * in elements, is read once for up to 64 rows of x; a float32 W once for up to 8, from the
// L2 cache if it fits there. x comes from that cache, once for each block.
//
// Every block prepares few rows (up to 16) for itself, in shared memory, while its first weights
// are loaded: the norm, the gate and the rounding to bfloat16. A single row is normed by all warps
// of the block together; for several rows that would take more registers than a kernel has. More
// rows are prepared once, by a kernel before (linear_rows.cu), with the same bits.
//
// bfloat16, int8: a block computes 16 outputs for up to 64 rows by matrix instructions, each with 8
// rows of x as its columns. int8 is widened to bfloat16 in registers. Where there would be fewer
// blocks than multiprocessors, a block computes 8 outputs. `in` is cut into pieces, which four
// lanes read, 16 bytes of weights each. A lane also loads the elements of x that belong to its
// weights, so k runs in another order inside a piece, the same for both factors. `in` is split into
// parts, one for each of a block's 8 warps; where few outputs have long rows, it is split over as
// many blocks as it takes to occupy a GPU. Parts are added in order: the 8 of a block by the block,
// those of several blocks by the last to arrive.
//
// float32: each output has a warp, which takes 8 rows at a time; its lanes split `in`, and load the
// next weights ahead.
//
// A warp's first weights are loaded while the kernel before ends (overlap.cuh). The last block to
// store outputs of a query or key head norms that head (head_norm.cuh). Every order and split
// follows from the shape of W alone: a row's bits do not depend on how many rows share the call.
// Chunks of a prompt are computed in another way (linear_chunk.cu).
#include <type_traits>

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/tickets.cuh"
#include "kernels/cuda/linear/epilogue.cuh"
#include "kernels/cuda/linear/head_norm.cuh"
#include "kernels/cuda/linear/linear_rows.h"
#include "kernels/cuda/linear/source_rows.cuh"
#include "kernels/numbers/bfloat16.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kThreads = kNormThreads;
constexpr int kWarps = kThreads / kWarp;
constexpr int kColumns = 8;      // rows of x that one matrix instruction takes
constexpr int kFewTiles = 2;     // of kColumns rows, that a block may prepare for itself
constexpr int kMostTiles = 8;    // of a block
constexpr int kRowsPerWarp = 8;  // of x, float32

// The most shared memory for prepared rows: so little that three blocks fit on every GPU, and that
// the sums fit, too, into what a launch may ask for.
constexpr int64_t kMostPreparedBytes = 36 * 1024;

// A block for every multiprocessor of a large GPU (132 to 148).
constexpr int64_t kEnoughBlocks = 132;
// The fewest elements of `in` for a warp where blocks share an output: as many as it loads at once.
// Adding parts of an output by way of memory takes as long as many more elements.
constexpr int64_t kLeastElements = 128;

// A lane's 16 bytes of weights: kQuads times four pairs of bfloat16.
struct BFloat16Piece {
  using Element = BFloat16;
  static constexpr int kQuads = 1;
  __device__ static void Widen(const uint4& from, int, uint32_t (&pairs)[4]) {
    pairs[0] = from.x, pairs[1] = from.y, pairs[2] = from.z, pairs[3] = from.w;
  }
};
struct Int8Piece {
  using Element = int8_t;
  static constexpr int kQuads = 2;
  __device__ static void Widen(const uint4& from, int quad, uint32_t (&pairs)[4]) {
    WidenInt8(quad == 0 ? from.x : from.z, pairs[0], pairs[1]);
    WidenInt8(quad == 0 ? from.y : from.w, pairs[2], pairs[3]);
  }
};

struct Product {
  const void* weight;  // [outputs][stride]
  const BFloat16* x;   // [rows][stride], unless blocks prepare them
  int outputs, rows, stride;
  int pitch;           // of rows in shared memory, elements
  int splits;          // blocks that share an output
  float* partial;      // [splits][rows][outputs], where there are several
  uint32_t* tickets;   // [blocks of outputs][tiles of 64 rows], zero between calls
  uint32_t* of_heads;  // tickets of NormCompleteHeads
};

// Which rows of `source` blocks prepare for themselves, in LaunchShared: none, the only one, or all
// of a few.
enum class Prepared { kNone, kOne, kSeveral };

// Computes kOutputs outputs, 8 or 16, of rows [64 blockIdx.y, ...) in kTiles tiles; rows beyond
// `rows` read as zero.
template <class Piece, int kOutputs, int kTiles, Prepared kPrepared>
__global__ void __launch_bounds__(kThreads, kTiles <= kFewTiles ? 3 : 2)
    TensorKernel(Product product, SourceRows source, Epilogue epilogue, HeadNorm heads) {
  struct Shared {
    float sum[kWarps][kOutputs][kTiles * kColumns + 1];
    uint32_t ticket;
  };
  constexpr bool kPrepares = kPrepared != Prepared::kNone;
  constexpr int kQuads = Piece::kQuads, kPerLane = 8 * kQuads, kElements = 4 * kPerLane;
  constexpr int kHalves = kOutputs / 8;  // of a matrix instruction's outputs
  // The number of pieces of which a warp loads weights, and x unless it is in shared memory, at
  // once: as many as fit into registers beside the sums.
  constexpr int kAhead = (kTiles <= 2   ? 32
                          : kTiles <= 4 ? 24
                                        : 16) /
                         kPerLane * (kPrepares ? 2 / kHalves : 1);
  Shared& shared = BlockShared<Shared>();
  const int g = LaneId() / 4, t = LaneId() % 4;
  const int group = static_cast<int>(blockIdx.x) / product.splits;
  const int split = static_cast<int>(blockIdx.x) % product.splits;
  const int output = group * kOutputs;
  const int first_row = static_cast<int>(blockIdx.y) * kMostTiles * kColumns;
  const int stride = product.stride, pieces = stride / kElements, parts = product.splits * kWarps;
  const auto part_begin = [&](int part) { return pieces * part / parts; };
  const int begin = part_begin(split * kWarps + WarpId());
  const int end = part_begin(split * kWarps + WarpId() + 1);
  const uint4 zero{0, 0, 0, 0};
  // The lane's place in piece 0 of its first row of weights, in units of 16 bytes.
  const auto* weight_rows = static_cast<const typename Piece::Element*>(product.weight);
  const auto* weight_row = reinterpret_cast<const uint4*>(
      weight_rows + static_cast<int64_t>(output + g) * stride + t * kPerLane);
  const int row_length = stride / kPerLane;  // in those units

  uint4 weight[kAhead][kHalves];
  const auto load_weights = [&](int first) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const bool there = output + g + 8 * half < product.outputs && first + i < end;
        weight[i][half] =
            there ? LoadStreamed(weight_row + 8 * half * row_length + (first + i) * 4) : zero;
      }
    }
  };
  LetSuccessorBegin();
  load_weights(begin);
  if (kPrepares) PrefetchGains(source);
  if (threadIdx.x < kOutputs && output + static_cast<int>(threadIdx.x) < product.outputs) {
    epilogue.Prefetch(output + threadIdx.x);
  }
  WaitForPredecessor();

  // A thread's places in the block's sums. What y held there before is loaded now, too.
  constexpr int kSums = kOutputs * kTiles * kColumns;
  constexpr int kSumsOfThread = (kSums + kThreads - 1) / kThreads;
  const auto for_sums = [&](const auto& run) {
#pragma unroll
    for (int i = 0; i < kSumsOfThread; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kThreads;
      const int o = at % kOutputs, column = at / kOutputs;
      if (at < kSums && output + o < product.outputs && first_row + column < product.rows) {
        run(i, o, column);
      }
    }
  };
  float old[kSumsOfThread] = {};
  for_sums(
      [&](int i, int o, int column) { old[i] = epilogue.Old(first_row + column, output + o); });

  // The lane's place in piece 0 of its first row of x, and how far it is to the next piece and
  // tile.
  const uint4* x;
  const int x_piece = 4 * kQuads, x_tile = kPrepares ? product.pitch : stride;
  if constexpr (kPrepares) {
    const int from = part_begin(split * kWarps) * kElements;
    const int to = part_begin((split + 1) * kWarps) * kElements;
    auto* prepared = LaunchShared<BFloat16>();
    if constexpr (kPrepared == Prepared::kOne) {
      PrepareRowHere(source, from, to, prepared, &shared.sum[0][0][0]);
    } else {
      PrepareRowsHere(source, from, to, prepared, product.pitch);
    }
    __syncthreads();
    x = reinterpret_cast<const uint4*>(prepared + g * product.pitch + t * kPerLane - from);
  } else {
    x = reinterpret_cast<const uint4*>(product.x + static_cast<int64_t>(first_row + g) * stride +
                                       t * kPerLane);
  }
  const int rows = min(product.rows - first_row, kMostTiles * kColumns) - g;

  float sum[kTiles][4] = {};
  for (int first = begin; first < end; first += kAhead) {
    if (first != begin) load_weights(first);
    [[maybe_unused]] uint4 under_way[kAhead * kQuads][kTiles];
    if constexpr (!kPrepares) {
#pragma unroll
      for (int i = 0; i < kAhead * kQuads; ++i) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const bool there = tile * kColumns < rows && first + i / kQuads < end;
          under_way[i][tile] =
              there ? x[(first + i / kQuads) * x_piece + tile * x_tile + i % kQuads] : zero;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i >= end) break;
#pragma unroll
      for (int quad = 0; quad < kQuads; ++quad) {
        uint32_t low[4], high[4] = {};
        Piece::Widen(weight[i][0], quad, low);
        if constexpr (kHalves == 2) Piece::Widen(weight[i][1], quad, high);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          uint4 b;
          if constexpr (kPrepares) {
            b = tile * kColumns < rows ? x[(first + i) * x_piece + tile * x_tile + quad] : zero;
          } else {
            b = under_way[i * kQuads + quad][tile];
          }
          MultiplyAdd16x8x16({low[0], high[0], low[1], high[1]}, {b.x, b.y}, sum[tile]);
          MultiplyAdd16x8x16({low[2], high[2], low[3], high[3]}, {b.z, b.w}, sum[tile]);
        }
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 2 * kHalves; ++i) {
      shared.sum[WarpId()][g + i / 2 * 8][tile * kColumns + t * 2 + i % 2] = sum[tile][i];
    }
  }
  __syncthreads();

  const auto of_block = [&](int o, int column) {
    float total = shared.sum[0][o][column];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) total += shared.sum[warp][o][column];
    return total;
  };
  if (product.splits == 1) {
    for_sums([&](int i, int o, int column) {
      epilogue.Store(first_row + column, output + o, of_block(o, column), old[i]);
    });
  } else {
    const auto partial = [&](int s, int o, int column) -> float& {
      const int64_t row = int64_t{s} * product.rows + first_row + column;
      return product.partial[row * product.outputs + output + o];
    };
    for_sums([&](int, int o, int column) { partial(split, o, column) = of_block(o, column); });
    uint32_t* ticket = product.tickets + group * gridDim.y + blockIdx.y;
    if (!LastToArrive(ticket, product.splits, shared.ticket)) return;
    for_sums([&](int i, int o, int column) {
      float total = partial(0, o, column);
      for (int s = 1; s < product.splits; ++s) total += partial(s, o, column);
      epilogue.Store(first_row + column, output + o, total, old[i]);
    });
  }
  NormCompleteHeads(heads, output, kOutputs, first_row,
                    min(product.rows, first_row + kMostTiles * kColumns), product.of_heads,
                    shared.ticket);
}

// Computes up to kRowsPerWarp rows of x, which is prepared unless blocks prepare their rows
// themselves.
template <Prepared kPrepared>
__global__ void __launch_bounds__(kThreads)
    Float32Kernel(const float* weight, const float* x, int64_t outputs, int64_t stride,
                  SourceRows source, Epilogue epilogue, HeadNorm heads, uint32_t* of_heads) {
  struct Shared {
    float partial[kWarps];
    uint32_t ticket;
  };
  constexpr bool kPrepares = kPrepared != Prepared::kNone;
  constexpr int kPerLane = 4;
  Shared& shared = BlockShared<Shared>();
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kWarps + WarpId();
  const int first_row = static_cast<int>(blockIdx.y) * kRowsPerWarp, rows = source.rows;
  const auto load = [](const float* four) { return *reinterpret_cast<const float4*>(four); };
  const auto load_weights = [&](int64_t k) {
    return output < outputs && k < stride ? load(weight + output * stride + k) : float4{};
  };
  const int64_t first = LaneId() * kPerLane;
  LetSuccessorBegin();
  float4 w = load_weights(first);
  if (kPrepares) PrefetchGains(source);
  WaitForPredecessor();
  if constexpr (kPrepares) {
    auto* prepared = LaunchShared<float>();
    if constexpr (kPrepared == Prepared::kOne) {
      PrepareRowHere(source, 0, static_cast<int>(stride), prepared, shared.partial);
    } else {
      PrepareRowsHere(source, 0, static_cast<int>(stride), prepared, static_cast<int>(stride));
    }
    __syncthreads();
    x = prepared;
  } else {
    x += static_cast<int64_t>(first_row) * stride;
  }

  float sum[kRowsPerWarp] = {};
  for (int64_t k = first; k < stride; k += kWarp * kPerLane) {
    const float4 next = load_weights(k + kWarp * kPerLane);
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r) {
      if (first_row + r >= rows) break;
      const float4 v = load(x + r * stride + k);
      sum[r] = fmaf(w.w, v.w, fmaf(w.z, v.z, fmaf(w.y, v.y, fmaf(w.x, v.x, sum[r]))));
    }
    w = next;
  }
  for (int r = 0; r < kRowsPerWarp && first_row + r < rows; ++r) {
    const float total = WarpReduce(sum[r], Add());
    if (LaneId() == 0 && output < outputs) {
      epilogue.Store(first_row + r, output, total, epilogue.Old(first_row + r, output));
    }
  }
  NormCompleteHeads(heads, static_cast<int>(blockIdx.x) * kWarps, kWarps, first_row,
                    min(rows, first_row + kRowsPerWarp), of_heads, shared.ticket);
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How many blocks share an output: as many as it takes to have enough blocks, as long as every warp
// has its elements.
int64_t SplitsFor(int64_t outputs, int64_t stride) {
  int64_t splits = 1;
  while (CeilDivide(outputs, 8) * splits < kEnoughBlocks &&
         2 * splits * kWarps * kLeastElements <= stride) {
    splits *= 2;
  }
  return splits;
}

template <class Piece>
absl::Status RunTensor(Device& device, const LinearRun& run) {
  const LinearWeight& weight = *run.weight;
  const int64_t rows = run.rows(), stride = RowStride(weight.in), elements = 32 * Piece::kQuads;
  const int64_t splits = SplitsFor(weight.out, stride);
  // Rows in shared memory lie so that the lanes of a load have no bank conflicts.
  const int64_t part = CeilDivide(stride / elements, splits) * elements;
  const int64_t pitch = RowStride(part) + (Piece::kQuads == 1 ? 32 : 8);
  const auto prepared_bytes = static_cast<int64_t>(rows * pitch * sizeof(BFloat16));
  const bool prepares = rows <= kFewTiles * kColumns && prepared_bytes <= kMostPreparedBytes;
  const int64_t blocks_y = CeilDivide(rows, kMostTiles * kColumns);
  const int64_t outputs = CeilDivide(weight.out, 16) * blocks_y < kEnoughBlocks ? 8 : 16;
  const LaunchShape shape{.blocks = CeilDivide(weight.out, outputs) * splits,
                          .blocks_y = blocks_y,
                          .threads = kThreads,
                          .shared_bytes = prepares ? static_cast<int>(prepared_bytes) : 0,
                          .overlaps = true};
  Product product{.weight = weight.data.data(),
                  .outputs = static_cast<int>(weight.out),
                  .rows = static_cast<int>(rows),
                  .stride = static_cast<int>(stride),
                  .pitch = static_cast<int>(pitch),
                  .splits = static_cast<int>(splits)};
  // As many as the narrowest blocks take, so that their number does not grow when there are fewer
  // rows.
  const int64_t shared_outputs = splits > 1 ? CeilDivide(weight.out, 8) * shape.blocks_y : 0;
  const absl::StatusOr<uint32_t*> tickets = AsCuda(device).Tickets(
      shared_outputs + (run.heads.heads + run.heads.kv_heads) * shape.blocks_y);
  if (!tickets.ok()) return tickets.status();
  product.tickets = *tickets;
  product.of_heads = *tickets + shared_outputs;
  if (splits > 1) {
    absl::StatusOr<float*> partial = AsCuda(device).Scratch<float>(1, splits * rows * weight.out);
    if (!partial.ok()) return partial.status();
    product.partial = *partial;
  }
  if (!prepares) {
    const absl::StatusOr<const void*> x = PrepareRows(device, run.source, weight.dtype);
    if (!x.ok()) return x.status();
    product.x = static_cast<const BFloat16*>(*x);
  }
  const auto launch = [&](auto kernel) {
    return Launch("Linear", device, shape, kernel, product, SourceRows(run.source), Epilogue(run),
                  run.heads);
  };
  const int64_t tiles = CeilDivide(rows, kColumns);
  const auto launch_tiles = [&]<int kOutputs>(std::integral_constant<int, kOutputs>) {
    if (prepares && rows == 1) return launch(TensorKernel<Piece, kOutputs, 1, Prepared::kOne>);
    if (prepares) {
      return launch(tiles == 1 ? TensorKernel<Piece, kOutputs, 1, Prepared::kSeveral>
                               : TensorKernel<Piece, kOutputs, 2, Prepared::kSeveral>);
    }
    if (tiles <= 2) return launch(TensorKernel<Piece, kOutputs, 2, Prepared::kNone>);
    if (tiles <= 4) return launch(TensorKernel<Piece, kOutputs, 4, Prepared::kNone>);
    return launch(TensorKernel<Piece, kOutputs, kMostTiles, Prepared::kNone>);
  };
  return outputs == 8 ? launch_tiles(std::integral_constant<int, 8>())
                      : launch_tiles(std::integral_constant<int, 16>());
}

absl::Status RunFloat32(Device& device, const LinearRun& run) {
  const LinearWeight& weight = *run.weight;
  const int64_t rows = run.rows(), stride = RowStride(weight.in);
  const auto prepared_bytes = static_cast<int64_t>(rows * stride * sizeof(float));
  const bool prepares = rows <= kRowsPerWarp && prepared_bytes <= kMostPreparedBytes;
  const LaunchShape shape{.blocks = CeilDivide(weight.out, kWarps),
                          .blocks_y = CeilDivide(rows, kRowsPerWarp),
                          .threads = kThreads,
                          .shared_bytes = prepares ? static_cast<int>(prepared_bytes) : 0,
                          .overlaps = true};
  const absl::StatusOr<uint32_t*> tickets =
      AsCuda(device).Tickets((run.heads.heads + run.heads.kv_heads) * shape.blocks_y);
  if (!tickets.ok()) return tickets.status();
  absl::StatusOr<const void*> x = nullptr;
  if (!prepares) x = PrepareRows(device, run.source, weight.dtype);
  if (!x.ok()) return x.status();
  const auto kernel = !prepares   ? Float32Kernel<Prepared::kNone>
                      : rows == 1 ? Float32Kernel<Prepared::kOne>
                                  : Float32Kernel<Prepared::kSeveral>;
  return Launch("Linear", device, shape, kernel, weight.data.as<const float>(),
                static_cast<const float*>(*x), weight.out, stride, SourceRows(run.source),
                Epilogue(run), run.heads, *tickets);
}

}  // namespace

absl::Status RunLinear(Device& device, const LinearRun& run) {
  if (run.rows() == 0 || run.weight->out == 0) return absl::OkStatus();
  if (run.source.chunk_rows > 0) return RunChunkLinear(device, run);
  switch (run.weight->dtype) {
    case DType::kFloat32:
      return RunFloat32(device, run);
    case DType::kBFloat16:
      return RunTensor<BFloat16Piece>(device, run);
    case DType::kInt8:
      return RunTensor<Int8Piece>(device, run);
    case DType::kInt4:
      break;
  }
  return absl::InternalError("Linear: no such dtype");
}

}  // namespace tvq::TVQ_CUDA
