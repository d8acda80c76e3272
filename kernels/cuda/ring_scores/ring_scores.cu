// Scores of a ring of exact keys and of codes (kernels/ops/attention/ring_scores.h).
//
// First the scores of codes are computed, with a block for each row and query head, since position
// scores need all of them. Then position scores: a block has 64 consecutive positions, whose slots
// lie one behind the other, and queries that share a key/value head. It brings 64 numbers of each
// key and each query to shared memory at a time, and a thread has one key and a few queries.
// Prefill stores the call's keys when all are scored. Until then the ring has the keys that these
// overwrite, and the call's own are taken as they will be stored. Decode stores keys at once: what
// they overwrite is out of reach.
//
// A decode step reads W K elements of the ring per session and key/value head, once for 8 query
// heads. Prefill reads as much for 32 pairs of a row and a query head. A sum's order follows from K
// alone.
#include <algorithm>

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/numbers/bfloat16.h"
#include "kernels/ops/attention/ring_scores.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kCodeThreads = 128;

// Positions of a block and numbers of a key at a time.
constexpr int kKeys = 64;
constexpr int kNumbers = 64;
constexpr int kPanel = static_cast<int>(kKeyPanel);
static_assert(kRingStep == kKeys && kKeys % kPanel == 0);

// A block's threads have the same key kGroups times, with different queries.
constexpr int kGroups = 4;
constexpr int kThreads = kKeys * kGroups;

// In decode, rows are sessions: `states` and `positions` [N]. In prefill, where these are null,
// rows are positions from `position` on of the one `state`.
struct Call {
  VqShape shape;
  const VqState* states = nullptr;
  const int64_t* positions = nullptr;
  VqState state;
  int64_t position = 0;

  int64_t rows, heads;
  const float *bias, *q, *q_sink, *k, *k_plain;
  int32_t* codes;
  float *code_scores, *position_scores;

  __device__ bool decode() const { return states != nullptr; }
  __device__ int64_t shared() const { return heads / shape.kv_heads; }
};

// The rows of a call that have the same state as row n.
struct Session {
  VqState state;
  int64_t row;       // the first of them
  int64_t position;  // of that row

  __device__ Session(const Call& call, int64_t n)
      : state(call.decode() ? call.states[n] : call.state),
        row(call.decode() ? n : 0),
        position(call.decode() ? call.positions[n] : call.position) {}

  __device__ int64_t PositionOf(int64_t n) const { return position + n - row; }
  __device__ int64_t RowOf(int64_t at) const { return row + at - position; }
};

// Stores the key of row n, by the threads of a block.
template <typename T>
__device__ void StoreKey(const Call& call, const Session& session, int64_t n, int64_t g) {
  const VqShape& shape = call.shape;
  const float* k = call.k + (n * shape.kv_heads + g) * shape.key;
  T* slot = static_cast<T*>(session.state.window_key) +
            shape.KeyIndex(g, session.PositionOf(n) % shape.window, 0);
  for (int64_t i = threadIdx.x; i < shape.key; i += blockDim.x) StoreAs(k[i], slot + i * kPanel);
}

// Each row and query head has a block. The block of a key/value head's first query head also writes
// what is stored once for the key/value head.
template <typename T>
__global__ void __launch_bounds__(kCodeThreads) RingCodesKernel(Call call) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const VqShape& shape = call.shape;
  const int64_t n = blockIdx.x, h = blockIdx.y, g = h / call.shared();
  const Session session(call, n);
  if (session.state.none()) return;

  float* scores = call.code_scores + (n * call.heads + h) * shape.codes;
  const float bias = call.bias[h];
  for (int64_t s = threadIdx.x; s + 1 < shape.codes; s += kCodeThreads) scores[s] += bias;

  // The state has the sink's key only after a call that had position 0.
  const float* sink = session.position > 0
                          ? session.state.sink_key + g * shape.key
                          : call.k_plain + (session.row * shape.kv_heads + g) * shape.key;
  if (WarpId() == 0) {
    const float* q = call.q_sink + (n * call.heads + h) * shape.key;
    float sum = 0;
    for (int64_t i = LaneId(); i < shape.key; i += kWarp) sum = fmaf(q[i], sink[i], sum);
    sum = WarpReduce(sum, Add());
    if (LaneId() == 0) scores[shape.codes - 1] = sum;
  }

  if (h % call.shared() != 0) return;
  if (session.PositionOf(n) == 0) {
    float* key = session.state.sink_key + g * shape.key;
    for (int64_t i = threadIdx.x; i < shape.key; i += kCodeThreads) key[i] = sink[i];
    if (threadIdx.x == 0) {
      call.codes[n * shape.kv_heads + g] = static_cast<int32_t>(shape.codes - 1);
    }
  }
  if (call.decode()) StoreKey<T>(call, session, n, g);
}

// Stores the keys of a prefill's last rows, as many as the ring has slots, with a block for each.
template <typename T>
__global__ void __launch_bounds__(kCodeThreads) RingKeysKernel(Call call, int64_t first) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const int64_t n = first + blockIdx.x;
  StoreKey<T>(call, Session(call, n), n, blockIdx.y);
}

// Queries of a block: consecutive ones of those that share key/value head g, counted over all rows
// of a session, [rows, heads that share].
struct Queries {
  int64_t g, first, end;
};

template <int kQueries>
__device__ Queries QueriesOf(const Call& call) {
  const int64_t g = blockIdx.x % call.shape.kv_heads, unit = blockIdx.x / call.shape.kv_heads;
  const int64_t shared = call.shared();
  if (!call.decode()) {
    return {g, unit * kQueries, std::min(unit * kQueries + kQueries, call.rows * shared)};
  }
  const int64_t parts = (shared + kQueries - 1) / kQueries, n = unit / parts;
  const int64_t first = n * shared + unit % parts * kQueries;
  return {g, first, std::min(first + kQueries, (n + 1) * shared)};
}

// Each thread has kOwn queries of a block's kGroups * kOwn. Rows are spread over the banks of
// shared memory, those of queries 16 byte aligned.
template <int kOwn>
struct Tile {
  float keys[kNumbers][kKeys + 1];
  alignas(16) float queries[kNumbers][kGroups * kOwn + 4];
};

// A block has positions `base` to base + 63; its queries have positions `oldest` to `last` in
// reach.
struct Reach {
  int64_t base, oldest, last;
};

// Loads numbers [begin, begin + count) of the keys that are in the ring, 0 for those out of reach.
template <typename T, int kOwn>
__device__ void LoadStored(const Call& call, const Session& session, int64_t g, const Reach& reach,
                           int64_t begin, int count, Tile<kOwn>& tile) {
  const VqShape& shape = call.shape;
  const int slot = static_cast<int>(threadIdx.x) % kPanel;
  const T* ring = static_cast<const T*>(session.state.window_key) +
                  shape.KeyIndex(g, reach.base % shape.window, begin) + slot;
#pragma unroll
  for (int panel = 0; panel < kKeys / kPanel; ++panel) {
    const int column = panel * kPanel + slot;
    const int64_t at = reach.base + column;
    if (at >= session.position) break;
    const T* key = ring + panel * kPanel * shape.key;
#pragma unroll
    for (int pass = 0; pass < kNumbers * kPanel / kThreads; ++pass) {
      const int i = static_cast<int>(threadIdx.x) / kPanel + pass * (kThreads / kPanel);
      tile.keys[i][column] = i < count && at >= reach.oldest ? Widen(key[i * kPanel]) : 0;
    }
  }
}

// The same for the keys that the call has.
template <typename T, int kOwn>
__device__ void LoadNew(const Call& call, const Session& session, int64_t g, const Reach& reach,
                        int64_t begin, int count, Tile<kOwn>& tile) {
  const int64_t key = call.shape.key;
  const int i = static_cast<int>(threadIdx.x) % kNumbers;
#pragma unroll 4
  for (int column = static_cast<int>(threadIdx.x) / kNumbers; column < kKeys;
       column += kThreads / kNumbers) {
    const int64_t at = reach.base + column;
    if (at < session.position) continue;
    T number{};
    if (i < count && at <= reach.last) {
      StoreAs(call.k[(session.RowOf(at) * call.shape.kv_heads + g) * key + begin + i], &number);
    }
    tile.keys[i][column] = Widen(number);
  }
}

template <int kOwn>
__device__ void LoadQueries(const Call& call, const Queries& of, int64_t begin, int count,
                            Tile<kOwn>& tile) {
  const int64_t key = call.shape.key, shared = call.shared();
  const int i = static_cast<int>(threadIdx.x) % kNumbers;
#pragma unroll
  for (int pass = 0; pass < kOwn; ++pass) {
    const int u = static_cast<int>(threadIdx.x) / kNumbers + pass * (kThreads / kNumbers);
    const int64_t query = of.first + u;
    float number = 0;
    if (i < count && query < of.end) {
      const int64_t n = query / shared, h = of.g * shared + query % shared;
      number = call.q[(n * call.heads + h) * key + begin + i];
    }
    tile.queries[i][u] = number;
  }
}

template <typename T, int kOwn>
__global__ void __launch_bounds__(kThreads, 3) RingPositionsKernel(Call call) {
  LetSuccessorBegin();
  WaitForPredecessor();
  const VqShape& shape = call.shape;
  const int64_t shared = call.shared();
  const Queries of = QueriesOf<kGroups * kOwn>(call);
  const Session session(call, of.first / shared);
  if (session.state.none()) return;
  const int64_t last = session.PositionOf((of.end - 1) / shared);
  const int64_t oldest =
      std::max<int64_t>(0, session.PositionOf(of.first / shared) - shape.window + 1);
  const Reach reach{(oldest / kKeys + blockIdx.y) * kKeys, oldest, last};
  if (reach.base > last) return;

  Tile<kOwn>& tile = BlockShared<Tile<kOwn>>();
  const int column = static_cast<int>(threadIdx.x) % kKeys;
  const int first = static_cast<int>(threadIdx.x) / kKeys * kOwn;
  float sums[kOwn] = {};
  for (int64_t begin = 0; begin < shape.key; begin += kNumbers) {
    const int count = static_cast<int>(std::min<int64_t>(kNumbers, shape.key - begin));
    if (reach.base < session.position) {
      LoadStored<T>(call, session, of.g, reach, begin, count, tile);
    }
    if (reach.base + kKeys > session.position) {
      LoadNew<T>(call, session, of.g, reach, begin, count, tile);
    }
    LoadQueries(call, of, begin, count, tile);
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      const float key = tile.keys[i][column];
#pragma unroll
      for (int u = 0; u < kOwn; ++u) sums[u] = fmaf(tile.queries[i][first + u], key, sums[u]);
    }
    __syncthreads();
  }

  const int64_t at = reach.base + column;
  if (at < oldest || at > last) return;
  const int32_t code = at < session.position
                           ? session.state.window_code[of.g * shape.window + at % shape.window]
                           : call.codes[session.RowOf(at) * shape.kv_heads + of.g];
#pragma unroll
  for (int u = 0; u < kOwn; ++u) {
    const int64_t query = of.first + first + u;
    if (query >= of.end) return;
    const int64_t n = query / shared, distance = session.PositionOf(n) - at;
    if (distance < 0 || distance >= shape.window) continue;
    const int64_t row = n * call.heads + of.g * shared + query % shared;
    call.position_scores[row * shape.window + distance] =
        sums[u] - call.code_scores[row * shape.codes + code];
  }
}

// How many blocks of 64 positions an interval of so many positions may meet.
int64_t BlocksOf(int64_t positions) { return (positions + kKeys - 2) / kKeys + 1; }

template <typename T>
absl::Status RunCodes(Device& device, const Call& call) {
  return Launch(
      "RingCodes", device,
      {.blocks = call.rows, .blocks_y = call.heads, .threads = kCodeThreads, .overlaps = true},
      RingCodesKernel<T>, call);
}

template <typename T>
absl::Status Decode(Device& device, const Call& call) {
  constexpr int kOwn = 2, kQueries = kGroups * kOwn;
  const int64_t kv_heads = call.shape.kv_heads, shared = call.heads / kv_heads;
  const int64_t units = call.rows * ((shared + kQueries - 1) / kQueries);
  const absl::Status status = RunCodes<T>(device, call);
  if (!status.ok()) return status;
  return Launch("RingPositions", device,
                {.blocks = units * kv_heads,
                 .blocks_y = BlocksOf(call.shape.window),
                 .threads = kThreads,
                 .overlaps = true},
                RingPositionsKernel<T, kOwn>, call);
}

template <typename T>
absl::Status Prefill(Device& device, const Call& call) {
  constexpr int kOwn = 8, kQueries = kGroups * kOwn;
  const int64_t kv_heads = call.shape.kv_heads, shared = call.heads / kv_heads;
  const int64_t units = (call.rows * shared + kQueries - 1) / kQueries;
  // A block's queries are of at most kQueries rows. `there`: blocks of all positions that the
  // session has.
  const int64_t reach = BlocksOf(call.shape.window + kQueries - 1);
  const int64_t there = (call.position + call.rows + kKeys - 1) / kKeys;
  absl::Status status = RunCodes<T>(device, call);
  if (!status.ok()) return status;
  status = Launch("RingPositions", device,
                  {.blocks = units * kv_heads,
                   .blocks_y = std::min(reach, there),
                   .threads = kThreads,
                   .overlaps = true},
                  RingPositionsKernel<T, kOwn>, call);
  if (!status.ok()) return status;
  const int64_t kept = std::min(call.rows, call.shape.window);
  return Launch("RingKeys", device,
                {.blocks = kept, .blocks_y = kv_heads, .threads = kCodeThreads, .overlaps = true},
                RingKeysKernel<T>, call, call.rows - kept);
}

Call CallOf(const VqShape& shape, const RingRows& rows) {
  return {.shape = shape,
          .rows = rows.q.dim(0),
          .heads = rows.q.dim(1),
          .bias = rows.bias.data,
          .q = rows.q.data,
          .q_sink = rows.q_sink.data,
          .k = rows.k.data,
          .k_plain = rows.k_plain.data,
          .codes = rows.codes.data,
          .code_scores = rows.code_scores.data,
          .position_scores = rows.position_scores.data};
}

}  // namespace

absl::Status CudaRingDecodeScores(Device& device, const RingDecodeScoresArgs& args) {
  Call call = CallOf(args.shape, args.rows);
  if (call.rows == 0) return absl::OkStatus();
  call.states = args.states.data;
  call.positions = args.positions.data;
  return call.shape.value_dtype == DType::kFloat32 ? Decode<float>(device, call)
                                                   : Decode<BFloat16>(device, call);
}

absl::Status CudaRingPrefillScores(Device& device, const RingPrefillScoresArgs& args) {
  Call call = CallOf(args.shape, args.rows);
  if (call.rows == 0) return absl::OkStatus();
  call.state = args.state;
  call.position = args.position;
  return call.shape.value_dtype == DType::kFloat32 ? Prefill<float>(device, call)
                                                   : Prefill<BFloat16>(device, call);
}

}  // namespace tvq::TVQ_CUDA
