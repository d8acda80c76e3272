// Two passes. The first is a Linear of the normed rows, whose columns go straight to q, k, v and g
// (with silu fused into the latter two). The second, unless heads are plain, is the norm of query
// and key heads, which needs whole heads and touches only N * (H + G) * K values that are still in
// cache.
#include "kernels/ops/qkvg_projection.h"

#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/linear/run_linear.h"
#include "kernels/cpu/norm_rows/norm_row.h"

namespace tvq {
namespace {

// Below this many values one thread is done before another would have begun.
constexpr int64_t kOneThread = 16384;

void Project(CpuDevice& device, const QkvgProjectionArgs& args) {
  const int64_t rows = args.x.dim(0);
  const int64_t width = args.x.dim(1);
  float* normed = device.Scratch<float>(kFirstFreeSlot, rows * width);
  const auto norm_row = [&](int64_t row) {
    NormRow(args.norm, kOwnEpsilon, args.x.row(row), args.gain.data, args.bias.data, width,
            normed + row * width);
  };

  struct Output {
    const Tensor<float, 3>& tensor;
    Activation activation;
  };
  const Output outputs[] = {{args.q_u, Activation::kNone},
                            {args.k, Activation::kNone},
                            {args.v, args.value_activation},
                            {args.g, Activation::kSilu}};
  OutputColumns columns[4];
  int64_t first = 0;
  for (size_t i = 0; i < 4; ++i) {
    const int64_t count = outputs[i].tensor.dim(1) * outputs[i].tensor.dim(2);
    columns[i] = {.first = first,
                  .count = count,
                  .y = outputs[i].tensor.data,
                  .stride = count,
                  .activation = outputs[i].activation};
    first += count;
  }
  RunLinear(device, *args.weight, {.x = {normed, {rows, width}}, .compute_row = norm_row},
            std::span(columns).first(args.gated() ? 4 : 3));
}

// q_u holds the raw queries on entry.
void NormHeads(const QkvgProjectionArgs& args, int64_t row) {
  const int64_t key = args.q_u.dim(2);
  const float t = static_cast<float>(std::pow(static_cast<double>(key), -0.25));
  for (int64_t h = 0; h < args.q_u.dim(1); ++h) {
    float* q = args.q_u.row(row) + h * key;
    if (args.biased()) {
      RmsNormQuery(q, t, args.u.row(h), args.w.row(h), key, q, args.q_w.row(row) + h * key);
    } else {
      RmsNormKey(q, t, key);
    }
  }
  for (int64_t h = 0; h < args.k.dim(1); ++h) RmsNormKey(args.k.row(row) + h * key, t, key);
}

}  // namespace

absl::Status CpuQkvgProjection(Device& device, const QkvgProjectionArgs& args) {
  CpuDevice& cpu = AsCpu(device);
  Project(cpu, args);
  if (args.plain_heads) return absl::OkStatus();
  const int64_t rows = args.x.dim(0);
  const int64_t values = rows * (args.q_u.dim(1) + args.k.dim(1)) * args.q_u.dim(2);
  if (values < kOneThread) {
    for (int64_t row = 0; row < rows; ++row) NormHeads(args, row);
  } else {
    cpu.pool().ParallelFor(rows, [&](int64_t row) { NormHeads(args, row); });
  }
  return absl::OkStatus();
}

}  // namespace tvq
