// Keys lie in panels of 16: [P][ceil(S/16)][K][16], zero padded, so that lanes run over codes and
// every sum is one chain over K. A panel (64 * K bytes) stays in the L1 cache while it is
// multiplied with all rows, so that the table is read from memory once, whatever the number of
// rows.
//
// Reads P*S*K*4 bytes; 2*N*H*S*K operations.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/head_scores/head_scores.cc"
#include "kernels/ops/attention/head_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/register_tile-inl.h"
#include "kernels/cpu/run_ahead.h"

#ifndef TVQ_KERNELS_CPU_HEAD_SCORES_SHARED_
#define TVQ_KERNELS_CPU_HEAD_SCORES_SHARED_
namespace tvq {

inline constexpr int64_t kPanel = 16;
// Rows of x per task: their 96 * K floats stay in the L2 cache beside the panels.
inline constexpr int64_t kRowChunk = 96;

inline int64_t PaddedRows(int64_t rows) { return (rows + kPanel - 1) / kPanel * kPanel; }

}  // namespace tvq
#endif

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// Row r of the rows that use key head p: session r / shared, head p * shared + r % shared.
struct RowMap {
  int64_t key_head;
  int64_t shared;
  int64_t heads;
  int64_t operator()(int64_t r) const {
    return r / shared * heads + key_head * shared + r % shared;
  }
};

// Scores of rows [first, end) for the columns of one tile, [column, column + vectors * lanes).
void ScoreColumns(const HeadScoresArgs& args, const RowMap& map, int64_t first, int64_t end,
                  int64_t column, int64_t vectors) {
  const HeadKeys& keys = *args.keys;
  const int64_t columns = std::min(keys.rows - column, vectors * kTileLanes);
  const bool whole = columns == vectors * kTileLanes;
  HWY_ALIGN float edge[kTileRows * kTileColumns];

  TileArgs tile;
  tile.b = keys.data.as<float>() +
           (map.key_head * PaddedRows(keys.rows) + column / kPanel * kPanel) * keys.width +
           column % kPanel;
  tile.b_step = kPanel;
  tile.b_vector = kTileLanes == kPanel ? kPanel * keys.width : kTileLanes;
  tile.depth = keys.width;
  tile.accumulate = false;
  for (int64_t r = first; r < end; r += kTileRows) {
    const int64_t rows = std::min(kTileRows, end - r);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = map(r + i);
      tile.a[i] = args.x.data + row * keys.width;
      tile.c[i] = whole ? args.out.data + row * keys.rows + column : edge + i * kTileColumns;
    }
    ComputeTile(rows, vectors, tile);
    if (whole) continue;
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(edge + i * kTileColumns, columns,
                  args.out.data + map(r + i) * keys.rows + column);
    }
  }
}

// A table of keys and the rows that are multiplied with it, of one or two kinds (queries, keys).
struct ScoreTable {
  const HeadScoresArgs* kinds[2];
  int64_t count;

  const HeadKeys& keys() const { return *kinds[0]->keys; }
  int64_t Shared(int64_t kind) const { return kinds[kind]->x.dim(1) / keys().heads; }
  int64_t Rows(int64_t kind) const { return kinds[kind]->x.dim(0) * Shared(kind); }
  int64_t Vectors() const { return PaddedRows(keys().rows) / kTileLanes; }
  int64_t Groups() const { return (Vectors() + kTileVectors - 1) / kTileVectors; }
  int64_t Chunks() const {
    int64_t rows = 0;
    for (int64_t i = 0; i < count; ++i) rows = std::max(rows, Rows(i));
    return (rows + kRowChunk - 1) / kRowChunk;
  }
  int64_t Tasks() const { return keys().heads * Groups() * Chunks(); }
  int64_t Work() const {
    int64_t rows = 0;
    for (int64_t i = 0; i < count; ++i) rows += Rows(i);
    constexpr int64_t kBytesOfNumber =
        sizeof(float);  // reading keys costs as much as this many rows
    return std::max(rows, kBytesOfNumber) * keys().heads * keys().rows * keys().width;
  }

  // Computes the scores of a group of keys and a chunk of rows of each kind.
  void Run(int64_t task) const {
    const int64_t groups = Groups(), chunks = Chunks();
    const int64_t group = task / chunks % groups;
    const int64_t first = task % chunks * kRowChunk;
    for (int64_t i = 0; i < count; ++i) {
      const RowMap map{task / (groups * chunks), Shared(i), kinds[i]->x.dim(1)};
      ScoreColumns(*kinds[i], map, first, std::min(first + kRowChunk, Rows(i)),
                   group * kTileColumns, std::min(kTileVectors, Vectors() - group * kTileVectors));
    }
  }

  // Prefetches the keys that the task reads.
  void Fetch(int64_t task) const {
    const int64_t group = task / Chunks() % Groups();
    const int64_t head = task / (Groups() * Chunks());
    const int64_t column = group * kTileColumns / kPanel * kPanel;
    const int64_t columns = std::min(kTileColumns, PaddedRows(keys().rows) - column);
    const float* keys_here =
        keys().data.as<float>() + (head * PaddedRows(keys().rows) + column) * keys().width;
    FetchBytes(keys_here, columns * keys().width * static_cast<int64_t>(sizeof(float)));
  }
};

// Runs the tasks of all tables together, so that threads wait for one another once.
void RunTables(CpuDevice& cpu, std::span<const ScoreTable> tables) {
  int64_t tasks = 0, work = 0;
  for (const ScoreTable& table : tables) {
    tasks += table.Tasks();
    work += table.Work();
  }
  const auto at = [&](int64_t task, const auto& call) {
    const ScoreTable* table = tables.data();
    for (; task >= table->Tasks(); ++table) task -= table->Tasks();
    call(*table, task);
  };
  RunAhead(cpu, tasks, work, [&](int64_t task, int64_t next) {
    if (next < tasks) at(next, [](const ScoreTable& t, int64_t i) { t.Fetch(i); });
    at(task, [](const ScoreTable& t, int64_t i) { t.Run(i); });
  });
}

void HeadScoresAll(CpuDevice& cpu, const HeadScoresArgs& args) {
  const ScoreTable table{{&args}, 1};
  RunTables(cpu, {&table, 1});
}

// The first index of the largest score - half_norm. A lane keeps the first of its largest; between
// lanes that tie the lower index wins. Whatever the scores are (NaN, too), the result is a valid
// index.
int32_t NearestCode(const float* HWY_RESTRICT scores, const float* HWY_RESTRICT half_norm,
                    int64_t codes) {
  const TileTag d;
  const hn::Rebind<int32_t, TileTag> di;
  auto best = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto best_index = hn::Zero(di);
  auto index = hn::Iota(di, 0);
  int64_t s = 0;
  for (; s + kTileLanes <= codes; s += kTileLanes) {
    const auto value = hn::Sub(hn::LoadU(d, scores + s), hn::LoadU(d, half_norm + s));
    const auto better = hn::Gt(value, best);
    best = hn::IfThenElse(better, value, best);
    best_index = hn::IfThenElse(hn::RebindMask(di, better), index, best_index);
    index = hn::Add(index, hn::Set(di, static_cast<int32_t>(kTileLanes)));
  }
  HWY_ALIGN float values[kTileLanes];
  HWY_ALIGN int32_t indices[kTileLanes];
  hn::Store(best, d, values);
  hn::Store(best_index, di, indices);
  float top = values[0];
  int32_t top_index = indices[0];
  for (int64_t i = 1; i < kTileLanes; ++i) {
    if (values[i] > top || (values[i] == top && indices[i] < top_index)) {
      top = values[i];
      top_index = indices[i];
    }
  }
  for (; s < codes; ++s) {
    const float value = scores[s] - half_norm[s];
    if (value > top) {
      top = value;
      top_index = static_cast<int32_t>(s);
    }
  }
  return top_index;
}

// Finds the codes of rows from their scores [N, G, S].
void NearestCodes(CpuDevice& cpu, const VqAssignArgs& args, const float* scores) {
  const HeadKeys& codebook = *args.codebook;
  // Rows of a task: enough to be worth a task.
  constexpr int64_t kRows = 16;
  const int64_t all = args.k.dim(0) * codebook.heads;
  RunTasks(cpu, (all + kRows - 1) / kRows, all * codebook.rows, [&](int64_t task) {
    for (int64_t r = task * kRows; r < std::min(all, (task + 1) * kRows); ++r) {
      args.codes.data[r] = NearestCode(
          scores + r * codebook.rows,
          codebook.half_norm.as<float>() + r % codebook.heads * codebook.rows, codebook.rows);
    }
  });
}

HeadScoresArgs AssignScores(CpuDevice& cpu, const VqAssignArgs& args) {
  const HeadKeys& codebook = *args.codebook;
  const int64_t rows = args.k.dim(0);
  float* scores = cpu.Scratch<float>(0, rows * codebook.heads * codebook.rows);
  return {args.k, &codebook, {scores, {rows, codebook.heads, codebook.rows}}};
}

void VqAssignAll(CpuDevice& cpu, const VqAssignArgs& args) {
  const HeadScoresArgs scores = AssignScores(cpu, args);
  HeadScoresAll(cpu, scores);
  NearestCodes(cpu, args, scores.out.data);
}

// The codebook is read once for queries and keys where both have the same one.
void VqScoresAll(CpuDevice& cpu, const VqScoresArgs& args) {
  const HeadScoresArgs assign = AssignScores(cpu, args.assign);
  ScoreTable tables[3];
  size_t count = 0;
  if (args.code_scores.keys == assign.keys) {
    tables[count++] = {{&assign, &args.code_scores}, 2};
  } else {
    tables[count++] = {{&assign}, 1};
    tables[count++] = {{&args.code_scores}, 1};
  }
  if (args.scores_positions()) tables[count++] = {{&args.position_scores}, 1};
  RunTables(cpu, {tables, count});
  NearestCodes(cpu, args.assign, assign.out.data);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(HeadScoresAll);
HWY_EXPORT(VqAssignAll);
HWY_EXPORT(VqScoresAll);

absl::Status CpuPackHeadKeys(Device& device, const PackHeadKeysArgs& args) {
  const Tensor<const float, 3>& keys = args.keys;
  HeadKeys& packed = *args.packed = {keys.dim(0), keys.dim(1), keys.dim(2), {}, {}};
  const int64_t padded = PaddedRows(packed.rows);
  const auto bytes = [](int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); };
  absl::StatusOr<Buffer> data = device.Allocate(bytes(packed.heads * padded * packed.width));
  if (!data.ok()) return data.status();
  packed.data = *std::move(data);
  absl::StatusOr<Buffer> half_norm = device.Allocate(bytes(packed.heads * packed.rows));
  if (!half_norm.ok()) return half_norm.status();
  packed.half_norm = *std::move(half_norm);

  for (int64_t p = 0; p < packed.heads; ++p) {
    float* panels = packed.data.as<float>() + p * padded * packed.width;
    for (int64_t s = 0; s < packed.rows; ++s) {
      const float* key = keys.row(p) + s * packed.width;
      float* lane = panels + s / kPanel * kPanel * packed.width + s % kPanel;
      double norm = 0;
      for (int64_t k = 0; k < packed.width; ++k) {
        lane[k * kPanel] = key[k];
        norm += static_cast<double>(key[k]) * key[k];
      }
      packed.half_norm.as<float>()[p * packed.rows + s] = static_cast<float>(norm / 2);
    }
  }
  return absl::OkStatus();
}

absl::Status CpuHeadScores(Device& device, const HeadScoresArgs& args) {
  HWY_DYNAMIC_DISPATCH(HeadScoresAll)(AsCpu(device), args);
  return absl::OkStatus();
}

absl::Status CpuVqAssign(Device& device, const VqAssignArgs& args) {
  HWY_DYNAMIC_DISPATCH(VqAssignAll)(AsCpu(device), args);
  return absl::OkStatus();
}

absl::Status CpuVqScores(Device& device, const VqScoresArgs& args) {
  HWY_DYNAMIC_DISPATCH(VqScoresAll)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
