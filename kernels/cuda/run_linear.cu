// y = act(scale * (s (x W^T) + bias)) (+ y), s a scale for each output where W is int8.
// x [N, in], W [out, in], y [N, out].
//
// W is read once for up to 64 rows of x, out * in elements; as float32 once for up to 8, from the
// second cache where W fits it. x comes from that cache, once per 16 outputs (8 for float32).
//
// bfloat16, int8: a block computes 16 outputs for up to 64 rows by matrix instructions, x the 8
// columns of each, int8 widened to bfloat16 in registers. Pieces of `in` are four lanes of 16 bytes
// of weights; a lane also loads the elements of x that belong to its own, so k runs in another
// order inside a piece, the same for both. `in` is split into parts, one a warp: 8 a block, and as
// many blocks beside each other as it takes to occupy a GPU where there are few outputs. Parts are
// added in order: the 8 of a block by the block, those of several blocks by the last to arrive.
// float32: a warp an output, 8 rows at a time; lanes split `in`, the next weights under way.
// A warp's first weights are on their way while the kernel before ends (overlap.cuh).
// Every order and split follows from the shape of W alone: a row's bits do not depend on how many
// share the call. Chunks of a prompt take another way (linear_chunk.cu).
#include "kernels/bfloat16.h"
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/linear_rows.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/tickets.cuh"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kOutputs = 16;     // of a block, bfloat16 and int8
constexpr int kColumns = 8;      // rows of x that one matrix instruction takes
constexpr int kMostTiles = 8;    // of kColumns rows
constexpr int kRowsPerWarp = 8;  // of x, float32

// Blocks that keep every multiprocessor of a large GPU (132 to 148) loading: two each.
constexpr int64_t kEnoughBlocks = 256;

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
  const BFloat16* x;   // [rows][stride]
  int64_t outputs, rows, stride;
  int64_t splits;     // blocks that share an output
  float* partial;     // [splits][rows][outputs], where there are several
  uint32_t* tickets;  // [blocks of outputs][tiles of 64 rows], zero between calls
};

// Rows [64 blockIdx.y, ...) in kTiles tiles; rows beyond `rows` read as zero.
template <class Piece, int kTiles>
__global__ void __launch_bounds__(kThreads, 2) TensorKernel(Product product, Epilogue epilogue) {
  struct Shared {
    float sum[kWarps][kOutputs][kTiles * kColumns];
    uint32_t ticket;
  };
  constexpr int kQuads = Piece::kQuads, kPerLane = 8 * kQuads;
  // Pieces whose weights a warp has under way: what fits into 128 registers beside the sums.
  constexpr int kAhead = (kTiles <= 2 ? 32 : kTiles <= 4 ? 24 : 16) / kPerLane;
  Shared& shared = BlockShared<Shared>();
  const int g = LaneId() / 4, t = LaneId() % 4;
  const int64_t group = static_cast<int64_t>(blockIdx.x) / product.splits;
  const int64_t split = static_cast<int64_t>(blockIdx.x) % product.splits;
  const int64_t output = group * kOutputs;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kMostTiles * kColumns;
  const int64_t stride = product.stride, pieces = stride / (4 * kPerLane);
  const int64_t parts = product.splits * kWarps, part = split * kWarps + WarpId();
  const int begin = static_cast<int>(pieces * part / parts);
  const int end = static_cast<int>(pieces * (part + 1) / parts);
  const uint4 zero{0, 0, 0, 0};
  // The lane's place in piece 0 of its two rows of weights and of the first of its rows of x, in
  // units of 16 bytes, and the way to the next piece and to the next tile.
  const auto* weight_rows = static_cast<const typename Piece::Element*>(product.weight);
  const auto* low_row =
      reinterpret_cast<const uint4*>(weight_rows + (output + g) * stride + t * kPerLane);
  const auto* high_row =
      reinterpret_cast<const uint4*>(weight_rows + (output + g + 8) * stride + t * kPerLane);
  const bool has_low = output + g < product.outputs, has_high = output + g + 8 < product.outputs;
  const auto* x =
      reinterpret_cast<const uint4*>(product.x + (first_row + g) * stride + t * kPerLane);
  const int x_piece = 4 * kQuads, x_tile = static_cast<int>(stride);
  const int rows = static_cast<int>(min(product.rows - first_row, int64_t{64})) - g;

  uint4 weight[kAhead][2];
  const auto load_weights = [&](int first) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const bool has_piece = first + i < end;
      weight[i][0] = has_low && has_piece ? LoadStreamed(low_row + (first + i) * 4) : zero;
      weight[i][1] = has_high && has_piece ? LoadStreamed(high_row + (first + i) * 4) : zero;
    }
  };
  LetSuccessorBegin();
  load_weights(begin);
  WaitForPredecessor();

  float sum[kTiles][4] = {};
  for (int first = begin; first < end; first += kAhead) {
    if (first != begin) load_weights(first);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i >= end) break;
#pragma unroll
      for (int quad = 0; quad < kQuads; ++quad) {
        uint32_t low[4], high[4];
        Piece::Widen(weight[i][0], quad, low);
        Piece::Widen(weight[i][1], quad, high);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const uint4 b =
              tile * kColumns < rows ? x[(first + i) * x_piece + tile * x_tile + quad] : zero;
          MultiplyAdd16x8x16({low[0], high[0], low[1], high[1]}, {b.x, b.y}, sum[tile]);
          MultiplyAdd16x8x16({low[2], high[2], low[3], high[3]}, {b.z, b.w}, sum[tile]);
        }
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      shared.sum[WarpId()][g + i / 2 * 8][tile * kColumns + t * 2 + i % 2] = sum[tile][i];
    }
  }
  __syncthreads();

  const auto for_elements = [&](const auto& run) {
    for (int i = static_cast<int>(threadIdx.x); i < kOutputs * kTiles * kColumns; i += kThreads) {
      const int o = i % kOutputs, column = i / kOutputs;
      if (output + o < product.outputs && first_row + column < product.rows) run(o, column);
    }
  };
  const auto of_block = [&](int o, int column) {
    float total = shared.sum[0][o][column];
    for (int warp = 1; warp < kWarps; ++warp) total += shared.sum[warp][o][column];
    return total;
  };
  if (product.splits == 1) {
    for_elements([&](int o, int column) {
      epilogue.Store(first_row + column, output + o, of_block(o, column));
    });
    return;
  }
  const auto partial = [&](int64_t s, int o, int column) -> float& {
    return product.partial[(s * product.rows + first_row + column) * product.outputs + output + o];
  };
  for_elements([&](int o, int column) { partial(split, o, column) = of_block(o, column); });
  uint32_t* ticket = product.tickets + group * gridDim.y + blockIdx.y;
  if (!LastToArrive(ticket, product.splits, shared.ticket)) return;
  for_elements([&](int o, int column) {
    float total = partial(0, o, column);
    for (int64_t s = 1; s < product.splits; ++s) total += partial(s, o, column);
    epilogue.Store(first_row + column, output + o, total);
  });
}

__global__ void __launch_bounds__(kThreads)
    Float32Kernel(const float* weight, const float* x, int64_t outputs, int64_t rows,
                  int64_t stride, Epilogue epilogue) {
  constexpr int kPerLane = 4;
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kWarps + WarpId();
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kRowsPerWarp;
  const auto load = [](const float* four) { return *reinterpret_cast<const float4*>(four); };
  const auto load_weights = [&](int64_t k) {
    return output < outputs && k < stride ? load(weight + output * stride + k) : float4{};
  };
  const int64_t first = LaneId() * kPerLane;
  LetSuccessorBegin();
  float4 w = load_weights(first);
  WaitForPredecessor();
  if (output >= outputs) return;

  float sum[kRowsPerWarp] = {};
  for (int64_t k = first; k < stride; k += kWarp * kPerLane) {
    const float4 next = load_weights(k + kWarp * kPerLane);
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r) {
      if (first_row + r >= rows) break;
      const float4 v = load(x + (first_row + r) * stride + k);
      sum[r] = fmaf(w.w, v.w, fmaf(w.z, v.z, fmaf(w.y, v.y, fmaf(w.x, v.x, sum[r]))));
    }
    w = next;
  }
  for (int r = 0; r < kRowsPerWarp && first_row + r < rows; ++r) {
    const float total = WarpReduce(sum[r], Add());
    if (LaneId() == 0) epilogue.Store(first_row + r, output, total);
  }
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Blocks that share an output: until there are enough, while every warp has a piece.
int64_t SplitsFor(int64_t outputs, int64_t pieces) {
  int64_t splits = 1;
  while (CeilDivide(outputs, kOutputs) * splits < kEnoughBlocks && 2 * splits * kWarps <= pieces) {
    splits *= 2;
  }
  return splits;
}

template <class Piece>
absl::Status RunTensor(Device& device, const LinearRun& run, const Epilogue& epilogue) {
  const LinearWeight& weight = *run.weight;
  const int64_t stride = RowStride(weight.in), groups = CeilDivide(weight.out, kOutputs);
  const int64_t splits = SplitsFor(weight.out, stride / (32 * Piece::kQuads));
  const LaunchShape shape{.blocks = groups * splits,
                          .blocks_y = CeilDivide(run.rows, kMostTiles * kColumns),
                          .threads = kThreads,
                          .overlaps = true};
  Product product{weight.data.data(),
                  static_cast<const BFloat16*>(run.x),
                  weight.out,
                  run.rows,
                  stride,
                  splits,
                  nullptr,
                  nullptr};
  if (splits > 1) {
    absl::StatusOr<float*> partial =
        AsCuda(device).Scratch<float>(1, splits * run.rows * weight.out);
    if (!partial.ok()) return partial.status();
    absl::StatusOr<uint32_t*> tickets = AsCuda(device).Tickets(groups * shape.blocks_y);
    if (!tickets.ok()) return tickets.status();
    product.partial = *partial;
    product.tickets = *tickets;
  }
  const auto launch = [&](auto kernel) {
    return Launch("Linear", device, shape, kernel, product, epilogue);
  };
  const int64_t tiles = CeilDivide(run.rows, kColumns);
  if (tiles <= 1) return launch(TensorKernel<Piece, 1>);
  if (tiles <= 2) return launch(TensorKernel<Piece, 2>);
  if (tiles <= 4) return launch(TensorKernel<Piece, 4>);
  return launch(TensorKernel<Piece, kMostTiles>);
}

}  // namespace

absl::Status RunLinear(Device& device, const LinearRun& run) {
  if (run.rows == 0 || run.weight->out == 0) return absl::OkStatus();
  if (run.chunk_rows > 0) return RunChunkLinear(device, run);
  const Epilogue epilogue(run);
  switch (run.weight->dtype) {
    case DType::kFloat32:
      return Launch("Linear", device,
                    {.blocks = CeilDivide(run.weight->out, kWarps),
                     .blocks_y = CeilDivide(run.rows, kRowsPerWarp),
                     .threads = kThreads,
                     .overlaps = true},
                    Float32Kernel, run.weight->data.as<const float>(),
                    static_cast<const float*>(run.x), run.weight->out, run.rows,
                    RowStride(run.weight->in), epilogue);
    case DType::kBFloat16:
      return RunTensor<BFloat16Piece>(device, run, epilogue);
    case DType::kInt8:
      return RunTensor<Int8Piece>(device, run, epilogue);
    case DType::kInt4:
      break;
  }
  return absl::InternalError("Linear: no such dtype");
}

}  // namespace tvq::TVQ_CUDA
