// Attention of one new position of each of N sessions over the keys and values of all positions so
// far, in pages (kernels/ops/attention/softmax_attention.h).
//
// A session's positions are cut into tiles of 128 and these into up to kMostParts parts of whole
// tiles, whose number and bounds follow from the position alone. There are two kernels. The first
// computes each part's maximum score, its sum of exponentials, and its sum of values weighted by
// these. A block takes up to 4 query heads of a key/value head, 256 columns (float32: 128), and
// every `spread`-th of a session's parts, so that one session fills the GPU, and many do not make
// more blocks than it can start quickly. The block of the last part first writes the new key and
// value to their page (where several blocks do so, each for its own columns, they write the same
// key). The second kernel scales the parts to the maximum of all and adds them, in an order that
// follows from their number. So a session's bits depend on neither N nor `spread`, and nothing
// depends on what the host knows: neither grids nor scratch memory change as contexts grow, and a
// step can be recorded.
//
// Within a tile a warp computes the scores of a panel of 16 keys. Lanes load 16 bytes of keys each,
// as they lie, and keep sums for the 4 or 8 keys in them. They add up their sums by a butterfly, in
// which each step halves what a lane keeps. For each query head one warp turns scores into weights
// relative to the maximum so far. Then threads add up rows of values, 16 bytes each; the first rows
// were loaded before the scores. At the part's end columns' sums are added up in shared memory.
//
// Bytes per session and key/value head: K + V elements a position from memory. From cache, keys are
// read once more for every further 256 columns, and keys and values for every further 4 heads. Each
// part adds V + 2 floats a query head; there are at most kMostParts.
#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/softmax_attention/softmax_pages.cuh"
#include "kernels/ops/attention/softmax_attention.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kTile = kWarps * static_cast<int>(kKeyPanel);  // positions: each warp has a panel
static_assert(kKeyValuePage % kTile == 0);
// The most parts of a session: about as many as a large GPU has multiprocessors, since a session
// may have one head.
constexpr int kMostParts = 128;
// If a launch would have more blocks than this, several for each that a GPU can run at once, a
// session's parts share blocks. The stand-in runs blocks one by one, also those without a part.
#if defined(TVQ_CUDA_STAND_IN)
constexpr int64_t kManyBlocks = 4;
#else
constexpr int64_t kManyBlocks = 2048;
#endif
// The most threads that read rows of the same columns, so that adding up their sums does not take
// long.
constexpr int kMostRowLanes = 32;
// The most query heads of a block: their sums fit into registers.
constexpr int kMostRows = 4;
constexpr int kMergeColumns = 4 * kWarp;

struct SoftmaxDecode {
  KeyValueShape shape;
  int64_t layer_offset;
  const KeyValuePages* sessions;
  const int64_t* positions;
  int64_t heads;
  int64_t window;
  const float* q;
  const float* position_scores;
  const float* k;
  const float* v;
  int64_t spread;  // blocks that share a session's parts
  float* maximum;  // [N, H, kMostParts]
  float* sum;      // [N, H, kMostParts]
  float* values;   // [N, H, kMostParts, V]
  float* out;

  __host__ __device__ int64_t shared() const { return heads / shape.kv_heads; }
  __device__ static int64_t Tiles(int64_t position) { return position / kTile + 1; }
  __device__ static int64_t Parts(int64_t position) {
    const int64_t tiles = Tiles(position);
    return tiles < kMostParts ? tiles : kMostParts;
  }
  // The first tile of a part.
  __device__ static int64_t FirstTile(int64_t position, int64_t part) {
    return part * Tiles(position) / Parts(position);
  }
};

// Columns of a block: a lane of a warp loads kOfPack of them.
template <typename T>
constexpr int kColumns = kOfPack<T> * kWarp;

// How many blocks divide the heads and the columns of a call; a block has `rows` query heads.
template <typename T>
struct Division {
  int64_t groups, column_blocks;

  __host__ __device__ Division(const SoftmaxDecode& args, int rows)
      : groups((args.shared() + rows - 1) / rows),
        column_blocks((args.shape.value + kColumns<T> - 1) / kColumns<T>) {}
};

// Sums over the lanes that hold the same keys: lane l holds kCount keys from l % (16 / kCount) *
// kCount on. Add returns the sum of key Mine() of the panel.
template <int kCount>
struct KeySums {
  static constexpr int kLanes = static_cast<int>(kKeyPanel) / kCount;  // across a panel's row

  __device__ static float Add(float (&sum)[kCount]) {
#pragma unroll
    for (int half = kCount / 2, bit = kWarp / 2; half >= 1; half /= 2, bit /= 2) {
      const bool upper = (LaneId() & bit) != 0;
#pragma unroll
      for (int i = 0; i < half; ++i) {
        const float keep = upper ? sum[i + half] : sum[i];
        const float give = upper ? sum[i] : sum[i + half];
        sum[i] = keep + __shfl_xor_sync(kAllLanes, give, bit);
      }
    }
    return sum[0] + __shfl_xor_sync(kAllLanes, sum[0], kLanes);
  }
  __device__ static int Mine() {
    int key = LaneId() % kLanes * kCount;
#pragma unroll
    for (int half = kCount / 2, bit = kWarp / 2; half >= 1; half /= 2, bit /= 2) {
      if ((LaneId() & bit) != 0) key += half;
    }
    return key;
  }
  // Two lanes have the same key's sum, and one of them writes it.
  __device__ static bool Writes() { return (LaneId() & kLanes) == 0; }
};

// Computes the scores of a panel's keys for `rows` queries, of which the first lies at q. Every
// lane receives those of key KeySums::Mine().
template <typename T, int kRows>
__device__ inline void ScorePanel(const T* panel, int64_t width, const float* q, int rows,
                                  float (&score)[kRows]) {
  using Sums = KeySums<kOfPack<T>>;
  constexpr int kStep = kWarp / Sums::kLanes;  // elements of keys that a warp loads at a time
  constexpr int kAhead = 4;
  const uint4* packs = reinterpret_cast<const uint4*>(panel) + LaneId();
  const int first = LaneId() / Sums::kLanes;
  float sum[kRows][kOfPack<T>] = {};
  for (int64_t i0 = first; i0 - first < width; i0 += kStep * kAhead) {
    uint4 pack[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      pack[a] = {};
      if (i0 + a * kStep < width) {
        pack[a] = LoadStreamed(packs + (i0 - first + a * kStep) * Sums::kLanes);
      }
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int64_t i = i0 + a * kStep;
      if (i >= width) break;
      float key[kOfPack<T>];
      Unpack(pack[a], key);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float x = r < rows ? q[r * width + i] : 0;
#pragma unroll
        for (int c = 0; c < kOfPack<T>; ++c) sum[r][c] = fmaf(x, key[c], sum[r][c]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) score[r] = Sums::Add(sum[r]);
}

// Loads 16 bytes of a row of values, of which `left` elements exist. kAligned: V is a multiple of
// the elements of 16 bytes.
template <bool kAligned, typename T>
__device__ inline uint4 LoadValues(const T* row, int64_t left) {
  if constexpr (kAligned) {
    return LoadStreamed(reinterpret_cast<const uint4*>(row));
  } else {
    T element[kOfPack<T>] = {};
    for (int i = 0; i < kOfPack<T>; ++i) {
      if (i < left) element[i] = row[i];
    }
    uint4 pack;
    memcpy(&pack, element, sizeof(pack));
    return pack;
  }
}

template <typename T, int kRows>
struct PartsShared {
  float weight[2][kRows][kTile];  // of every second tile
  float factor[2][kRows];
  float sum[kThreads * kOfPack<T>];  // [row lanes][columns]
};

// Computes parts of session blockIdx.y. `held`: what a thread loads of values at a time, in pieces
// of 16 bytes.
template <typename T, int kRows, bool kAligned>
__global__ void __launch_bounds__(kThreads, 2) PartsKernel(SoftmaxDecode args) {
  constexpr int kPack = kOfPack<T>;
  constexpr int kHeld = kRows == 1 ? 8 : 4;
  LetSuccessorBegin();
  WaitForPredecessor();
  auto& shared = BlockShared<PartsShared<T, kRows>>();
  const Division<T> division(args, kRows);
  const int64_t n = blockIdx.y, keys = args.shape.key, values = args.shape.value;
  if (args.sessions[n].none()) return;
  int64_t block = blockIdx.x;
  const int64_t first_part = block % args.spread;
  block /= args.spread;
  const int64_t column_block = block % division.column_blocks;
  block /= division.column_blocks;
  const int64_t g = block / division.groups, first_row = block % division.groups * kRows;
  const int64_t h = g * args.shared() + first_row;
  const int rows =
      static_cast<int>(args.shared() - first_row < kRows ? args.shared() - first_row : kRows);
  const int64_t position = args.positions[n], parts = SoftmaxDecode::Parts(position);
  const LayerPages<T> layer{args.shape, args.layer_offset, args.sessions[n]};
  const float* q = args.q + (n * args.heads + h) * keys;
  const float* position_scores = args.position_scores + (n * args.heads + h) * args.window;

  const int64_t first_column = column_block * kColumns<T>;
  const int columns =
      static_cast<int>(values - first_column < kColumns<T> ? values - first_column : kColumns<T>);
  // `across` threads side by side read a row, and `row_lanes` rows are read at a time.
  const int across = (columns + kPack - 1) / kPack;
  const int row_lanes = kThreads / across < kMostRowLanes ? kThreads / across : kMostRowLanes;
  const int thread = static_cast<int>(threadIdx.x);
  const int row_lane = thread / across, column = thread % across * kPack;
  const bool reads = row_lane < row_lanes;

  for (int64_t part = first_part; part < parts; part += args.spread) {
    const int64_t first_tile = SoftmaxDecode::FirstTile(position, part);
    const int64_t end_tile = SoftmaxDecode::FirstTile(position, part + 1);
    if (part == parts - 1) {
      T* key = layer.Key(g, position);
      const float* k = args.k + (n * args.shape.kv_heads + g) * keys;
      for (int64_t i = thread; i < keys; i += kThreads) StoreAs(k[i], key + i * kKeyPanel);
      T* value = layer.Value(g, position) + first_column;
      const float* v = args.v + (n * args.shape.kv_heads + g) * values + first_column;
      for (int c = thread; c < columns; c += kThreads) StoreAs(v[c], value + c);
      __syncthreads();
    }
    float out[kRows][kPack] = {};
    float largest = -INFINITY, total = 0;  // of the query of this warp
    for (int64_t tile = first_tile; tile < end_tile; ++tile) {
      const int64_t start = tile * kTile;
      const int at = static_cast<int>(tile % 2);
      const int there = static_cast<int>(position - start < kTile ? position - start + 1 : kTile);
      const T* value = layer.Value(g, start) + first_column + column;
      // Loads values from the thread's row `first` on.
      const auto load = [&](int first, uint4(&pack)[kHeld]) {
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
          const int row = first + i * row_lanes;
          pack[i] = {};
          if (reads && row < there) {
            pack[i] = LoadValues<kAligned>(value + row * values, columns - column);
          }
        }
      };
      uint4 held[kHeld];
      load(row_lane, held);

      const int panel = WarpId() * static_cast<int>(kKeyPanel);
      if (panel < there) {
        using Sums = KeySums<kPack>;
        float score[kRows];
        ScorePanel<T, kRows>(layer.Key(g, start + panel), keys, q, rows, score);
        const int key = panel + Sums::Mine();
        const int64_t distance = position - start - key;
        if (Sums::Writes()) {
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            if (r < rows && distance >= 0 && distance < args.window) {
              score[r] += position_scores[r * args.window + distance];
            }
            shared.weight[at][r][key] = distance < 0 ? -INFINITY : score[r];
          }
        }
      } else if (LaneId() < kKeyPanel) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) shared.weight[at][r][panel + LaneId()] = -INFINITY;
      }
      __syncthreads();
      if (WarpId() < kRows) {
        float* weight = shared.weight[at][WarpId()] + LaneId();
        float score[kTile / kWarp], most = largest;
#pragma unroll
        for (int i = 0; i < kTile / kWarp; ++i) {
          score[i] = weight[i * kWarp];
          most = Max()(most, score[i]);
        }
        most = WarpReduce(most, Max());
        const float factor = expf(largest - most);
        float sum = 0;
#pragma unroll
        for (int i = 0; i < kTile / kWarp; ++i) {
          weight[i * kWarp] = expf(score[i] - most);
          sum += weight[i * kWarp];
        }
        total = fmaf(total, factor, WarpReduce(sum, Add()));
        largest = most;
        if (LaneId() == 0) shared.factor[at][WarpId()] = factor;
      }
      __syncthreads();
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        for (float& x : out[r]) x *= shared.factor[at][r];
      }
      for (int first = row_lane; first < there && reads;) {
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
          const int row = first + i * row_lanes;
          if (row >= there) break;
          float x[kPack];
          Unpack(held[i], x);
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            const float weight = shared.weight[at][r][row];
#pragma unroll
            for (int c = 0; c < kPack; ++c) out[r][c] = fmaf(weight, x[c], out[r][c]);
          }
        }
        first += kHeld * row_lanes;
        if (first < there) load(first, held);
      }
    }

    const int64_t output = (n * args.heads + h) * kMostParts + part;
    if (column_block == 0 && WarpId() < rows && LaneId() == 0) {
      args.maximum[output + WarpId() * kMostParts] = largest;
      args.sum[output + WarpId() * kMostParts] = total;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) break;
      float* mine = shared.sum + row_lane * across * kPack + column;
      if (reads) {
#pragma unroll
        for (int c = 0; c < kPack; ++c) mine[c] = out[r][c];
      }
      __syncthreads();
      if (thread < columns) {
        float sum = shared.sum[thread];
        for (int i = 1; i < row_lanes; ++i) sum += shared.sum[i * across * kPack + thread];
        args.values[(output + r * kMostParts) * values + first_column + thread] = sum;
      }
      __syncthreads();
    }
  }
}

// Adds the parts of a head of session blockIdx.y, for 128 columns.
__global__ void __launch_bounds__(kThreads) MergeKernel(SoftmaxDecode args) {
  struct Shared {
    float partial[kWarps];
    float factor[kMostParts];
    float sum[kWarps][kMergeColumns];
  };
  LetSuccessorBegin();
  WaitForPredecessor();
  static_assert(kMostParts <= kThreads && kMergeColumns <= kThreads);
  Shared& shared = BlockShared<Shared>();
  const int64_t n = blockIdx.y, h = blockIdx.x % args.heads, values = args.shape.value;
  const int64_t first = static_cast<int64_t>(blockIdx.x) / args.heads * kMergeColumns;
  const int64_t row = n * args.heads + h;
  const int thread = static_cast<int>(threadIdx.x);
  const bool owns = thread < kMergeColumns && first + thread < values;
  if (args.sessions[n].none()) {
    if (owns) args.out[row * values + first + thread] = 0;
    return;
  }
  const int parts = static_cast<int>(SoftmaxDecode::Parts(args.positions[n]));
  const float maximum = thread < parts ? args.maximum[row * kMostParts + thread] : -INFINITY;
  const float largest = BlockReduce(maximum, shared.partial, Max());
  float total = 0;
  if (thread < parts) {
    const float factor = expf(maximum - largest);
    shared.factor[thread] = factor;
    total = factor * args.sum[row * kMostParts + thread];
  }
  total = BlockReduce(total, shared.partial, Add());

  float sum[kMergeColumns / kWarp] = {};
  for (int part = WarpId(); part < parts; part += kWarps) {
    const float factor = shared.factor[part];
    const float* from = args.values + (row * kMostParts + part) * values + first + LaneId();
#pragma unroll
    for (int c = 0; c < kMergeColumns / kWarp; ++c) {
      if (first + LaneId() + c * kWarp < values) sum[c] = fmaf(factor, from[c * kWarp], sum[c]);
    }
  }
#pragma unroll
  for (int c = 0; c < kMergeColumns / kWarp; ++c) {
    shared.sum[WarpId()][LaneId() + c * kWarp] = sum[c];
  }
  __syncthreads();
  if (!owns) return;
  float whole = shared.sum[0][thread];
  for (int warp = 1; warp < kWarps; ++warp) whole += shared.sum[warp][thread];
  args.out[row * values + first + thread] = whole / total;
}

template <typename T, int kRows>
absl::Status RunParts(Device& device, SoftmaxDecode args, int64_t sessions) {
  const Division<T> division(args, kRows);
  const int64_t blocks = args.shape.kv_heads * division.groups * division.column_blocks;
  args.spread = std::clamp<int64_t>(kManyBlocks / (sessions * blocks), 1, kMostParts);
  const LaunchShape shape{
      .blocks = blocks * args.spread, .blocks_y = sessions, .threads = kThreads, .overlaps = true};
  return args.shape.value % kOfPack<T> == 0
             ? Launch("SoftmaxDecodeParts", device, shape, PartsKernel<T, kRows, true>, args)
             : Launch("SoftmaxDecodeParts", device, shape, PartsKernel<T, kRows, false>, args);
}

template <typename T>
absl::Status Run(Device& device, const SoftmaxDecode& args, int64_t sessions) {
  absl::Status status;
  if (args.shared() == 1) {
    status = RunParts<T, 1>(device, args, sessions);
  } else {
    status = RunParts<T, kMostRows>(device, args, sessions);
  }
  if (!status.ok()) return status;
  const int64_t column_blocks = (args.shape.value + kMergeColumns - 1) / kMergeColumns;
  return Launch("SoftmaxDecodeMerge", device,
                {.blocks = args.heads * column_blocks,
                 .blocks_y = sessions,
                 .threads = kThreads,
                 .overlaps = true},
                MergeKernel, args);
}

}  // namespace

absl::Status CudaSoftmaxDecodeAttention(Device& device, const SoftmaxDecodeAttentionArgs& args) {
  const int64_t sessions = args.sessions.size(), heads = args.q.dim(1);
  if (sessions == 0) return absl::OkStatus();
  const int64_t parts = sessions * heads * kMostParts;
  CudaDevice& cuda = AsCuda(device);
  absl::StatusOr<float*> sums = cuda.Scratch<float>(1, 2 * parts);
  if (!sums.ok()) return sums.status();
  absl::StatusOr<float*> values = cuda.Scratch<float>(2, parts * args.shape.value);
  if (!values.ok()) return values.status();
  const SoftmaxDecode decode{.shape = args.shape,
                             .layer_offset = args.layer_offset,
                             .sessions = args.sessions.data,
                             .positions = args.positions.data,
                             .heads = heads,
                             .window = args.position_scores.dim(2),
                             .q = args.q.data,
                             .position_scores = args.position_scores.data,
                             .k = args.k.data,
                             .v = args.v.data,
                             .spread = 1,
                             .maximum = *sums,
                             .sum = *sums + parts,
                             .values = *values,
                             .out = args.out.data};
  return args.shape.dtype == DType::kFloat32 ? Run<float>(device, decode, sessions)
                                             : Run<BFloat16>(device, decode, sessions);
}

}  // namespace tvq::TVQ_CUDA
