#include "kernels/cpu/linear/run_linear.h"

#include <algorithm>

namespace tvq {
namespace {

// Below this many values, preparing rows costs less than waking the other threads.
constexpr int64_t kPrepareOnOneThread = 16384;
// Prepared rows of one block stay in the second-level cache (1 MB on current servers) beside a
// task's panels while all the panels of the task pass over them.
constexpr int64_t kRowBlockBytes = 384 << 10;
// Panels of one task: large enough to stream, small enough to share evenly.
constexpr int64_t kTaskBytes = 128 << 10;

struct Prepared {
  const std::byte* rows;
  int64_t row_bytes;
};

RowFormat FormatFor(const CpuDevice& device, DType dtype) {
  if (dtype == DType::kFloat32) return RowFormat::kFloat32;
  return device.bf16_dot() ? RowFormat::kBFloat16 : RowFormat::kBFloat16AsFloat;
}

TileFunction FunctionFor(RowFormat format) {
  if (format == RowFormat::kFloat32) return TileFloat32;
  return format == RowFormat::kBFloat16 ? TileBFloat16Dot : TileBFloat16;
}

Prepared PrepareRows(CpuDevice& device, const LinearInput& input, RowFormat format) {
  const int64_t rows = input.x.dim(0);
  const int64_t in = input.x.dim(1);
  const int64_t row_bytes = PreparedRowBytes(in, format);
  if (format == RowFormat::kFloat32 && input.times == nullptr) {
    return {reinterpret_cast<const std::byte*>(input.x.data), row_bytes};
  }
  std::byte* prepared = device.Scratch<std::byte>(kPreparedRowsSlot, rows * row_bytes);
  const auto prepare = [&](int64_t row) {
    const float* times = input.times == nullptr ? nullptr : input.times + row * in;
    PrepareRow(input.x.row(row), times, in, format, prepared + row * row_bytes);
  };
  if (rows * in < kPrepareOnOneThread) {
    for (int64_t row = 0; row < rows; ++row) prepare(row);
  } else {
    device.pool().ParallelFor(rows, prepare);
  }
  return {prepared, row_bytes};
}

// Rows [row, row + rows) times one pair of panels.
void RunPair(const Prepared& x, int64_t row, int64_t rows, const LinearWeight& weight, int64_t pair,
             TileFunction function, std::span<const OutputColumns> outputs) {
  alignas(64) float sums[kTileFloats];
  const std::byte* panels = weight.data.as<std::byte>() + pair * PairBytes(weight.in, weight.dtype);
  for (const int64_t end = row + rows; row < end; row += kTileRows) {
    const int64_t count = std::min(kTileRows, end - row);
    function({.rows = x.rows + row * x.row_bytes,
              .row_bytes = x.row_bytes,
              .row_count = count,
              .panels = panels,
              .in = weight.in},
             sums);
    StoreTile(sums, row, count, pair * kPairOutputs, outputs);
  }
}

}  // namespace

void RunLinear(CpuDevice& device, const LinearWeight& weight, const LinearInput& input,
               std::span<const OutputColumns> outputs) {
  const int64_t rows = input.x.dim(0);
  const int64_t pairs = PanelPairs(weight.out);
  if (rows == 0 || pairs == 0) return;
  const RowFormat format = FormatFor(device, weight.dtype);
  const TileFunction function = FunctionFor(format);
  const Prepared x = PrepareRows(device, input, format);
  const int64_t block = std::max(kTileRows, kRowBlockBytes / x.row_bytes / kTileRows * kTileRows);
  const int64_t task_pairs =
      std::clamp(kTaskBytes / PairBytes(weight.in, weight.dtype), int64_t{1},
                 std::max(int64_t{1}, pairs / (4 * device.pool().threads())));
  device.pool().ParallelFor((pairs + task_pairs - 1) / task_pairs, [&](int64_t task) {
    const int64_t end = std::min(pairs, (task + 1) * task_pairs);
    for (int64_t row = 0; row < rows; row += block) {
      for (int64_t pair = task * task_pairs; pair < end; ++pair) {
        RunPair(x, row, std::min(block, rows - row), weight, pair, function, outputs);
      }
    }
  });
}

}  // namespace tvq
