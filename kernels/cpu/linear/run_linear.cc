#include "kernels/cpu/linear/run_linear.h"

#include <algorithm>

#include "kernels/cpu/linear/tile_amx.h"
#include "kernels/cpu/run_ahead.h"

namespace tvq {
namespace {

// Below this many values, preparing rows costs less than waking the other threads.
constexpr int64_t kPrepareOnOneThread = 16384;
// Prepared rows of one block stay in the L2 cache (1 MB on current servers) beside a task's panels
// while they are multiplied with all panels of the task.
constexpr int64_t kRowBlockBytes = 384 << 10;
// Pairs of panels that one thread takes at a time when there are several blocks of rows, so that a
// block is read once for all of them.
constexpr int64_t kPairsPerTask = 4;
// The most bytes that one thread reads at a stretch: longer stretches are read no faster, and the
// other threads wait longer when that thread is taken off its core.
constexpr int64_t kRangeBytes = 384 << 10;
// Larger pairs of panels are not prefetched as a whole: they would leave the cache before they are
// used.
constexpr int64_t kMaxAheadBytes = 512 << 10;
// Where a pair is read only once, memory is busy anyway: it is enough to prefetch this far ahead,
// and what is farther would leave the L1 cache before it is used.
constexpr int64_t kAheadInStream = 4 << 10;
// With so many rows a pair of panels is widened once for all of its tiles. On two cores with AVX2 a
// prompt is read 12% faster so, and 32 sessions decode 7% faster.
constexpr int64_t kRowsToWiden = 12;
// Wider pairs would leave the L2 cache from tile to tile.
constexpr int64_t kMaxWideBytes = 512 << 10;

struct Prepared {
  std::byte* rows;  // null: the rows are x itself
  int64_t row_bytes;
};

// How a weight's tiles are computed.
struct TileKind {
  RowFormat format;
  TileFunction function;
  int64_t rows = kTileRows;  // of a tile at most
  bool widens = false;       // bfloat16 weights, for TileFloat32
};

TileKind KindFor(const DotInstructions& dot, DType dtype) {
  if (dtype == DType::kFloat32) return {RowFormat::kFloat32, TileFloat32};
  if (dtype == DType::kInt8) {
    if (dot.amx != nullptr) {
      return {RowFormat::kFixedPointBytes, dot.amx->int8, kAmxInt8Rows};
    }
    if (dot.int8) return {RowFormat::kFixedPointBytes, TileInt8Dot};
    if (dot.int8_256) return {RowFormat::kFixedPointBytes, TileInt8Dot256};
    return {RowFormat::kFixedPointWords, TileInt8};
  }
  if (dtype == DType::kInt4) {
    if (dot.int8) return {RowFormat::kGroupedBytes, TileInt4Dot};
    if (dot.int8_256) return {RowFormat::kGroupedBytes, TileInt4Dot256};
    return {RowFormat::kGroupedWords, TileInt4};
  }
  if (dot.amx != nullptr) return {RowFormat::kBFloat16, dot.amx->bfloat16, kAmxBFloat16Rows};
  if (dot.bf16) return {RowFormat::kBFloat16, TileBFloat16Dot};
  return {.format = RowFormat::kBFloat16AsFloat, .function = TileBFloat16, .widens = true};
}

Prepared MemoryForRows(CpuDevice& device, const LinearInput& input, RowFormat format) {
  const int64_t row_bytes = PreparedRowBytes(input.x.dim(1), format);
  if (format == RowFormat::kFloat32 && input.times == nullptr) {
    return {nullptr, row_bytes};
  }
  return {device.Scratch<std::byte>(kPreparedRowsSlot, input.x.dim(0) * row_bytes), row_bytes};
}

// One linear, shared by the threads.
struct Job {
  const LinearWeight& weight;
  std::span<const OutputColumns> outputs;
  TileKind kind;
  const std::byte* x;  // prepared rows
  int64_t x_bytes;     // of one row
  int64_t rows;
  int64_t pairs;
  int64_t pair_bytes;
  int64_t block;       // rows
  int64_t task_pairs;  // pairs of one task
  int64_t wide_in;     // of a widened pair
  float* wide;         // [threads][wide_in][32] for a widened pair of each thread, or null
};

const std::byte* PanelsOf(const Job& job, int64_t pair) {
  return job.weight.data.as<std::byte>() + pair * job.pair_bytes;
}

// What is prefetched while a pair is read once: the bytes kAheadInStream further on. Near the
// pair's end these are the first bytes of the pair `next`.
AheadBytes AheadInStream(const Job& job, int64_t pair, int64_t next) {
  const int64_t ahead = std::min(kAheadInStream, job.pair_bytes);
  AheadBytes bytes{.first = PanelsOf(job, pair) + ahead, .first_bytes = job.pair_bytes - ahead};
  if (next < job.pairs) {
    bytes.second = PanelsOf(job, next);
    bytes.second_bytes = ahead;
  }
  return bytes;
}

// What is prefetched by one of several tiles that read the same pair: its share of the pair `next`.
AheadBytes ShareOfNext(const Job& job, int64_t next, int64_t tile, int64_t tiles) {
  if (next >= job.pairs || job.pair_bytes > kMaxAheadBytes) return {};
  const int64_t lines = job.pair_bytes / kLineBytes;
  const int64_t first = lines * tile / tiles;
  return {.first = PanelsOf(job, next) + first * kLineBytes,
          .first_bytes = (lines * (tile + 1) / tiles - first) * kLineBytes};
}

// Multiplies rows [row, end) with one pair of panels, and prefetches from the pair `next`
// meanwhile.
void RunPair(const Job& job, int64_t row, int64_t end, int64_t pair, int64_t next, int64_t thread) {
  alignas(64) float sums[kTileFloats];
  const int64_t tiles = (end - row + job.kind.rows - 1) / job.kind.rows;
  TileInput input{.row_bytes = job.x_bytes, .panels = PanelsOf(job, pair), .in = job.weight.in};
  TileFunction function = job.kind.function;
  if (job.wide != nullptr && end - row >= kRowsToWiden) {
    float* wide = job.wide + thread * job.wide_in * kPairOutputs;
    WidenPair(input.panels, input.in, wide);
    input.panels = wide;
    input.in = job.wide_in;
    function = TileFloat32;
  }
  for (int64_t tile = 0; tile < tiles; ++tile) {
    input.rows = job.x + row * job.x_bytes;
    input.row_count = (end - row + tiles - tile - 1) / (tiles - tile);
    input.ahead = tiles == 1 ? AheadInStream(job, pair, next) : ShareOfNext(job, next, tile, tiles);
    function(input, sums);
    StoreTile(sums, row, input.row_count, pair * kPairOutputs, job.weight.scales.as<const float>(),
              job.outputs);
    row += input.row_count;
  }
}

void RunTask(const Job& job, int64_t task, int64_t next_task, int64_t thread) {
  const int64_t begin = task * job.task_pairs;
  const int64_t end = std::min(job.pairs, begin + job.task_pairs);
  for (int64_t row = 0; row < job.rows; row += job.block) {
    for (int64_t pair = begin; pair < end; ++pair) {
      RunPair(job, row, std::min(job.rows, row + job.block), pair,
              pair + 1 < end ? pair + 1 : next_task * job.task_pairs, thread);
    }
  }
}

}  // namespace

void RunLinear(CpuDevice& device, const LinearWeight& weight, const LinearInput& input,
               std::span<const OutputColumns> outputs) {
  const int64_t rows = input.x.dim(0);
  const int64_t pairs = PanelPairs(weight.out);
  if (rows == 0 || pairs == 0) return;
  const TileKind kind = KindFor(device.dot(), weight.dtype);
  const Prepared prepared = MemoryForRows(device, input, kind.format);
  const auto prepare = [&](int64_t row) {
    input.compute_row(row);
    if (prepared.rows == nullptr) return;
    const float* times = input.times == nullptr ? nullptr : input.times + row * weight.in;
    PrepareRow(input.x.row(row), times, weight.in, kind.format,
               prepared.rows + row * prepared.row_bytes);
  };
  const int64_t block =
      std::max(kind.rows, kRowBlockBytes / prepared.row_bytes / kind.rows * kind.rows);
  const int64_t task_pairs = rows > block ? kPairsPerTask : 1;
  const int64_t wide_in = (weight.in + 1) / 2 * 2;
  const int64_t wide_bytes = PairBytes(wide_in, DType::kFloat32);
  const bool widens = kind.widens && rows >= kRowsToWiden && wide_bytes <= kMaxWideBytes;
  const Job job{.weight = weight,
                .outputs = outputs,
                .kind = kind,
                .x = prepared.rows == nullptr ? reinterpret_cast<const std::byte*>(input.x.data)
                                              : prepared.rows,
                .x_bytes = prepared.row_bytes,
                .rows = rows,
                .pairs = pairs,
                .pair_bytes = PairBytes(weight.in, weight.dtype),
                .block = block,
                .task_pairs = task_pairs,
                .wide_in = wide_in,
                .wide = widens ? device.Scratch<float>(kWidePairsSlot, device.pool().threads() *
                                                                           wide_in * kPairOutputs)
                               : nullptr};
  const bool alone = rows * weight.in < kPrepareOnOneThread;
  if (!alone) device.pool().ParallelFor(rows, prepare);
  RunPrepared(
      device, (pairs + task_pairs - 1) / task_pairs, rows * weight.in * weight.out,
      [&] {
        for (int64_t row = 0; alone && row < rows; ++row) prepare(row);
      },
      [&](int64_t task) {
        const int64_t first = task * task_pairs;
        FetchBytes(PanelsOf(job, first), (pairs - first) * job.pair_bytes);
      },
      [&](int64_t task, int64_t next, int64_t thread) { RunTask(job, task, next, thread); },
      std::max<int64_t>(1, kRangeBytes / (task_pairs * job.pair_bytes)));
}

}  // namespace tvq
