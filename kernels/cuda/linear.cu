// y = act(scale * (x W^T + bias)) (+ y).  x [N, in], W [out, in], y [N, out].
//
// W lies row-major, rows padded to 64 elements. It is read once for up to 64 rows of x: out * in
// elements; x comes from the second cache, once per 16 outputs.
//
// bfloat16: a block computes 16 outputs for up to 64 rows by matrix instructions, x the 8 columns
// of each. Its 8 warps split `in` into parts of whole 32-element pieces; a lane loads 16 bytes of a
// weight row and the 16 bytes of the x row that belong to them, which is 4 pairs along k: k runs in
// another order inside a piece, the same for both. The parts are added in the order of the warps.
// float32: a warp an output, 8 rows at a time; lanes split `in`.
// Both orders follow from `in` alone: a row's bits do not depend on how many share the call.
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/linear_rows.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/reduce.cuh"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kOutputs = 16;     // of a block, bfloat16
constexpr int kColumns = 8;      // rows of x that one matrix instruction takes
constexpr int kMostTiles = 8;    // of kColumns rows
constexpr int kPiece = 32;       // elements of `in`: four lanes of 16 bytes
constexpr int kRowsPerWarp = 8;  // of x, float32

struct Epilogue {
  const float* bias;
  float scale;
  bool accumulate;
  OutputColumns columns[LinearRun::kMostColumns];
  int column_count;

  __device__ void Store(int64_t row, int64_t output, float sum) const {
    int c = 0;
    while (c + 1 < column_count && output >= columns[c + 1].first) ++c;
    if (bias != nullptr) sum += bias[output];
    sum *= scale;
    if (columns[c].activation == Activation::kSilu) sum = sum / (1 + expf(-sum));
    float* y = columns[c].y + row * columns[c].stride + output - columns[c].first;
    *y = accumulate ? *y + sum : sum;
  }
};

// Rows [64 blockIdx.y, ...) in kTiles tiles; rows beyond `rows` read as zero.
template <int kTiles>
__global__ void __launch_bounds__(kThreads)
    LinearBf16Kernel(const BFloat16* weight, const BFloat16* x, int64_t outputs, int64_t rows,
                     int64_t stride, Epilogue epilogue) {
  struct Shared {
    float sum[kWarps][kOutputs][kTiles * kColumns];
  };
  Shared& shared = BlockShared<Shared>();
  const int g = LaneId() / 4, t = LaneId() % 4;
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kOutputs;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kMostTiles * kColumns;
  const int64_t pieces = stride / kPiece;
  const int64_t begin = pieces * WarpId() / kWarps, end = pieces * (WarpId() + 1) / kWarps;
  const uint4 zero{0, 0, 0, 0};

  float sum[kTiles][4] = {};
  for (int64_t piece = begin; piece < end; ++piece) {
    const int64_t k = piece * kPiece + t * 8;
    const auto load_weight = [&](int64_t o) {
      return o < outputs ? LoadStreamed(reinterpret_cast<const uint4*>(weight + o * stride + k))
                         : zero;
    };
    const uint4 low = load_weight(output + g);
    const uint4 high = load_weight(output + g + 8);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int64_t row = first_row + tile * kColumns + g;
      const uint4 b = row < rows ? *reinterpret_cast<const uint4*>(x + row * stride + k) : zero;
      MultiplyAdd16x8x16({low.x, high.x, low.y, high.y}, {b.x, b.y}, sum[tile]);
      MultiplyAdd16x8x16({low.z, high.z, low.w, high.w}, {b.z, b.w}, sum[tile]);
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
  for (int i = static_cast<int>(threadIdx.x); i < kOutputs * kTiles * kColumns; i += kThreads) {
    const int o = i % kOutputs, column = i / kOutputs;
    if (output + o >= outputs || first_row + column >= rows) continue;
    float total = shared.sum[0][o][column];
    for (int warp = 1; warp < kWarps; ++warp) total += shared.sum[warp][o][column];
    epilogue.Store(first_row + column, output + o, total);
  }
}

__global__ void __launch_bounds__(kThreads)
    LinearFloat32Kernel(const float* weight, const float* x, int64_t outputs, int64_t rows,
                        int64_t stride, Epilogue epilogue) {
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kWarps + WarpId();
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kRowsPerWarp;
  if (output >= outputs) return;
  float sum[kRowsPerWarp] = {};
  for (int64_t k = LaneId(); k < stride; k += kWarp) {
    const float w = weight[output * stride + k];
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r) {
      if (first_row + r < rows) sum[r] = fmaf(w, x[(first_row + r) * stride + k], sum[r]);
    }
  }
  for (int r = 0; r < kRowsPerWarp && first_row + r < rows; ++r) {
    const float total = WarpReduce(sum[r], Add());
    if (LaneId() == 0) epilogue.Store(first_row + r, output, total);
  }
}

template <int kTiles>
absl::Status LaunchBf16(Device& device, const LinearRun& run, const Epilogue& epilogue) {
  constexpr int64_t kRows = kMostTiles * kColumns;
  return Launch("Linear", device,
                {.blocks = (run.weight->out + kOutputs - 1) / kOutputs,
                 .blocks_y = (run.rows + kRows - 1) / kRows,
                 .threads = kThreads},
                LinearBf16Kernel<kTiles>, run.weight->data.as<const BFloat16>(),
                static_cast<const BFloat16*>(run.x), run.weight->out, run.rows,
                RowStride(run.weight->in), epilogue);
}

template <typename T>
absl::StatusOr<LinearWeight> Pack(Device& device, std::span<const HostMatrix> parts, DType dtype) {
  LinearWeight weight{.in = parts[0].in, .dtype = dtype};
  for (const HostMatrix& part : parts) weight.out += part.out;
  const int64_t stride = RowStride(weight.in);
  std::vector<T> rows(static_cast<size_t>(weight.out * stride));
  T* row = rows.data();
  for (const HostMatrix& part : parts) {
    for (int64_t o = 0; o < part.out; ++o, row += stride) {
      for (int64_t i = 0; i < part.in; ++i) StoreAs(part.data[o * part.in + i], row + i);
    }
  }
  absl::StatusOr<Buffer> data = AsCuda(device).Upload<T>(rows);
  if (!data.ok()) return data.status();
  weight.data = *std::move(data);
  return weight;
}

}  // namespace

absl::Status RunLinear(Device& device, const LinearRun& run) {
  if (run.rows == 0 || run.weight->out == 0) return absl::OkStatus();
  Epilogue epilogue{run.bias, run.scale, run.accumulate, {}, run.column_count};
  for (int c = 0; c < run.column_count; ++c) epilogue.columns[c] = run.columns[c];
  if (run.weight->dtype == DType::kFloat32) {
    return Launch("Linear", device,
                  {.blocks = (run.weight->out + kWarps - 1) / kWarps,
                   .blocks_y = (run.rows + kRowsPerWarp - 1) / kRowsPerWarp,
                   .threads = kThreads},
                  LinearFloat32Kernel, run.weight->data.as<const float>(),
                  static_cast<const float*>(run.x), run.weight->out, run.rows,
                  RowStride(run.weight->in), epilogue);
  }
  const int64_t tiles = (run.rows + kColumns - 1) / kColumns;
  if (tiles <= 1) return LaunchBf16<1>(device, run, epilogue);
  if (tiles <= 2) return LaunchBf16<2>(device, run, epilogue);
  if (tiles <= 4) return LaunchBf16<4>(device, run, epilogue);
  return LaunchBf16<kMostTiles>(device, run, epilogue);
}

absl::StatusOr<LinearWeight> CudaPackLinear(Device& device, std::span<const HostMatrix> parts,
                                            DType dtype) {
  return dtype == DType::kFloat32 ? Pack<float>(device, parts, dtype)
                                  : Pack<BFloat16>(device, parts, dtype);
}

absl::Status CudaLinear(Device& device, const LinearArgs& args) {
  if (args.y.size() == 0) return absl::OkStatus();
  const absl::StatusOr<const void*> x = PrepareRows(device, {.x = args.x}, args.weight->dtype);
  if (!x.ok()) return x.status();
  const int64_t out = args.weight->out;
  return RunLinear(device, {.x = *x,
                            .rows = args.x.dim(0),
                            .weight = args.weight,
                            .bias = args.bias.data,
                            .scale = args.scale,
                            .accumulate = args.accumulate,
                            .columns = {{0, out, args.y.data, out, args.activation}},
                            .column_count = 1});
}

absl::Status CudaGatedOutput(Device& device, const GatedOutputArgs& args) {
  if (args.y.size() == 0) return absl::OkStatus();
  const absl::StatusOr<const void*> x =
      PrepareRows(device, {.x = args.o, .gate = args.g.data}, args.weight->dtype);
  if (!x.ok()) return x.status();
  const int64_t out = args.weight->out;
  return RunLinear(device, {.x = *x,
                            .rows = args.o.dim(0),
                            .weight = args.weight,
                            .accumulate = true,
                            .columns = {{0, out, args.y.data, out, Activation::kNone}},
                            .column_count = 1});
}

}  // namespace tvq::TVQ_CUDA
