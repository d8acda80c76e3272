// y = act(scale * (s (x W^T) + bias)) (+ y) as in run_linear.cu, x [chunk_rows, in], W [out, in].
//
// The product of a whole chunk of a prompt (kernels/ops/linear.h): by cuBLAS, always with
// `chunk_rows` rows, of which missing ones are zero, so that the algorithm, and with it a row's
// bits, follow from shapes alone.
//
// W, out * in elements, is read once, and x [chunk_rows, in] from cache for every tile of the
// library's. int8 weights are widened to bfloat16 first, which reads out * in bytes and writes
// twice as many. Sums go to scratch memory, [chunk_rows, out] floats, and from cache through the
// epilogue to where they belong.
#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/linear/epilogue.cuh"
#include "kernels/cuda/linear/linear_rows.h"
#include "kernels/numbers/bfloat16.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kThreads = 256;

// Scratch slots, next to those of linear_rows.h.
constexpr size_t kSumsSlot = 1, kWidenedSlot = 2;

// Widens `count` groups of 16 elements.
__global__ void __launch_bounds__(kThreads)
    WidenInt8Kernel(const uint4* from, int64_t count, uint4* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const uint4 q = LoadStreamed(from + i);
  uint4 first, second;
  WidenInt8(q.x, first.x, first.y);
  WidenInt8(q.y, first.z, first.w);
  WidenInt8(q.z, second.x, second.y);
  WidenInt8(q.w, second.z, second.w);
  to[2 * i] = first;
  to[2 * i + 1] = second;
}

__global__ void __launch_bounds__(kThreads)
    ChunkEpilogueKernel(const float* sums, int64_t outputs, Epilogue epilogue) {
  const int64_t row = blockIdx.y;
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (output < outputs)
    epilogue.Store(row, output, sums[row * outputs + output], epilogue.Old(row, output));
}

absl::StatusOr<const void*> Widened(Device& device, const LinearWeight& weight) {
  const int64_t elements = weight.out * RowStride(weight.in);
  absl::StatusOr<BFloat16*> wide = AsCuda(device).Scratch<BFloat16>(kWidenedSlot, elements);
  if (!wide.ok()) return wide.status();
  const int64_t groups = elements / 16;
  const absl::Status status = Launch(
      "WidenInt8", device, {.blocks = (groups + kThreads - 1) / kThreads, .threads = kThreads},
      WidenInt8Kernel, weight.data.as<const uint4>(), groups, reinterpret_cast<uint4*>(*wide));
  if (!status.ok()) return status;
  return *wide;
}

}  // namespace

absl::Status RunChunkLinear(Device& device, const LinearRun& run) {
  const LinearWeight& weight = *run.weight;
  const int64_t chunk_rows = run.source.chunk_rows;
  const absl::StatusOr<const void*> x = PrepareRows(device, run.source, weight.dtype);
  if (!x.ok()) return x.status();
  absl::StatusOr<const void*> w = weight.data.data();
  if (weight.dtype == DType::kInt8) w = Widened(device, weight);
  if (!w.ok()) return w.status();
  absl::StatusOr<float*> sums = AsCuda(device).Scratch<float>(kSumsSlot, chunk_rows * weight.out);
  if (!sums.ok()) return sums.status();
  const absl::Status status = AsCuda(device).gemm().Multiply(
      {.dtype = weight.dtype == DType::kFloat32 ? DType::kFloat32 : DType::kBFloat16,
       .x = *x,
       .w = *w,
       .y = *sums,
       .rows = chunk_rows,
       .in = RowStride(weight.in),
       .out = weight.out});
  if (!status.ok()) return status;
  return Launch("ChunkEpilogue", device,
                {.blocks = (weight.out + kThreads - 1) / kThreads,
                 .blocks_y = run.rows(),
                 .threads = kThreads},
                ChunkEpilogueKernel, *sums, weight.out, Epilogue(run));
}

}  // namespace tvq::TVQ_CUDA
