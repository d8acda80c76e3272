// out[n,h,s] = x[n,h] . keys[h / (H/P), s].  x [N,H,K], keys [P,S,K], out [N,H,S].
// codes[n,g] = the first s with the largest k[n,g] . C[g,s] - |C[g,s]|^2 / 2, which is the nearest
// of the codebook.  k [N,G,K], C [G,S,K].
//
// Keys lie transposed, [P][K][S padded to 32], so that lanes run over s. A block computes 32 keys
// for 64 rows of one key head: its 8 warps split K and keep their keys in registers while the rows
// pass (so many keys as fit there: K up to 128, the first of a longer one while the kernel before
// ends), so that the table, P S K floats, is read once for 64 rows. Each of the 8 sums is one chain
// over its part of K, and they are added in the order of the warps: the order follows from K alone.
// Beside the table N H K floats come in, from the second cache for every 32 keys, and N H S go out.
// A code is chosen from such scores, from cache, by a block a row: N G S floats and G S half norms
// in, N G codes out.
#include <vector>

#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/reduce.cuh"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kKeys = kWarp;  // of a block
constexpr int kParts = 8;     // of K, a warp each
constexpr int kThreads = kKeys * kParts;
constexpr int kRows = 8;          // between two barriers
constexpr int kBlockRows = 64;    // of a block
constexpr int kInRegisters = 16;  // elements of a key that a thread holds at a time

struct Shared {
  float sum[kParts][kRows][kKeys];
};

int64_t PaddedKeys(int64_t keys) { return (keys + kKeys - 1) / kKeys * kKeys; }

// Of blocks beside each other along y, each key head has `row_blocks`. Rows of one key head: row r
// is x row (r / shared) * heads + key_head * shared + r % shared.
__global__ void __launch_bounds__(kThreads)
    HeadScoresKernel(const float* x, const float* keys, int64_t rows, int64_t heads, int64_t shared,
                     int64_t key_rows, int64_t padded_keys, int64_t width, int64_t row_blocks,
                     float* out) {
  Shared& memory = BlockShared<Shared>();
  const int64_t s = static_cast<int64_t>(blockIdx.x) * kKeys + LaneId();
  const int64_t key_head = blockIdx.y / row_blocks;
  const int64_t first_row = blockIdx.y % row_blocks * kBlockRows;
  if (rows > first_row + kBlockRows) rows = first_row + kBlockRows;
  const int64_t part = (width + kParts - 1) / kParts;
  const int64_t first = part * WarpId() < width ? part * WarpId() : width;
  const int64_t end = first + part < width ? first + part : width;
  const float* key = keys + key_head * width * padded_keys + s;
  float held[kInRegisters];
  const auto hold = [&](int64_t k0) {
#pragma unroll
    for (int i = 0; i < kInRegisters; ++i) {
      held[i] = k0 + i < end ? key[(k0 + i) * padded_keys] : 0;
    }
  };
  const bool holds_all = end - first <= kInRegisters;
  LetSuccessorBegin();
  hold(first);
  WaitForPredecessor();

  for (int64_t r0 = first_row; r0 < rows; r0 += kRows) {
    float sum[kRows] = {};
    for (int64_t k0 = first; k0 < end; k0 += kInRegisters) {
      if (!holds_all && (r0 != first_row || k0 != first)) hold(k0);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r0 + r >= rows) break;
        const int64_t row = (r0 + r) / shared * heads + key_head * shared + (r0 + r) % shared;
        const float* from = x + row * width + k0;
#pragma unroll
        for (int i = 0; i < kInRegisters; ++i) {
          if (k0 + i < end) sum[r] = fmaf(held[i], from[i], sum[r]);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) memory.sum[WarpId()][r][LaneId()] = sum[r];
    __syncthreads();
    // Warp r finishes row r0 + r.
    if (r0 + WarpId() < rows && s < key_rows) {
      float total = memory.sum[0][WarpId()][LaneId()];
      for (int p = 1; p < kParts; ++p) total += memory.sum[p][WarpId()][LaneId()];
      const int64_t r = r0 + WarpId();
      const int64_t row = r / shared * heads + key_head * shared + r % shared;
      out[row * key_rows + s] = total;
    }
    __syncthreads();
  }
}

constexpr int kAssignThreads = 128;

// The nearest so far; the lower code on a tie, and code 0 where nothing compares.
struct Nearest {
  float score;
  int32_t code;
};
struct Nearer {
  __device__ Nearest operator()(const Nearest& a, const Nearest& b) const {
    return b.score > a.score || (b.score == a.score && b.code < a.code) ? b : a;
  }
};

// codes[n,g] = the first of the largest scores[n,g,s] - half_norm[g,s]. A block a row.
__global__ void __launch_bounds__(kAssignThreads)
    NearestCodeKernel(const float* scores, const float* half_norm, int64_t heads, int64_t codes,
                      int32_t* out) {
  LetSuccessorBegin();
  WaitForPredecessor();
  struct Partial {
    Nearest nearest[kAssignThreads / kWarp];
  };
  Partial& shared = BlockShared<Partial>();
  const int64_t row = blockIdx.x;
  Nearest best{-INFINITY, 0};
  for (int64_t s = threadIdx.x; s < codes; s += kAssignThreads) {
    const float score = scores[row * codes + s] - half_norm[row % heads * codes + s];
    if (score > best.score) best = {score, static_cast<int32_t>(s)};
  }
  best = BlockReduce(best, shared.nearest, Nearer());
  if (threadIdx.x == 0) out[row] = best.code;
}

}  // namespace

absl::StatusOr<HeadKeys> CudaPackHeadKeys(Device& device, Tensor<const float, 3> keys) {
  HeadKeys packed{keys.dim(0), keys.dim(1), keys.dim(2), {}, {}};
  const int64_t padded = PaddedKeys(packed.rows);
  std::vector<float> data(static_cast<size_t>(packed.heads * packed.width * padded));
  std::vector<float> half_norm(static_cast<size_t>(packed.heads * packed.rows));
  for (int64_t p = 0; p < packed.heads; ++p) {
    for (int64_t s = 0; s < packed.rows; ++s) {
      const float* key = keys.row(p) + s * packed.width;
      double norm = 0;
      for (int64_t k = 0; k < packed.width; ++k) {
        data[static_cast<size_t>((p * packed.width + k) * padded + s)] = key[k];
        norm += static_cast<double>(key[k]) * key[k];
      }
      half_norm[static_cast<size_t>(p * packed.rows + s)] = static_cast<float>(norm / 2);
    }
  }
  absl::StatusOr<Buffer> keys_on_device = AsCuda(device).Upload<float>(data);
  absl::StatusOr<Buffer> norms_on_device = AsCuda(device).Upload<float>(half_norm);
  if (!keys_on_device.ok()) return keys_on_device.status();
  if (!norms_on_device.ok()) return norms_on_device.status();
  packed.data = *std::move(keys_on_device);
  packed.half_norm = *std::move(norms_on_device);
  return packed;
}

absl::Status CudaHeadScores(Device& device, const HeadScoresArgs& args) {
  const HeadKeys& keys = *args.keys;
  if (args.out.size() == 0) return absl::OkStatus();
  const int64_t heads = args.x.dim(1);
  const int64_t shared = heads / keys.heads;
  const int64_t padded = PaddedKeys(keys.rows);
  const int64_t rows = args.x.dim(0) * shared;
  const int64_t row_blocks = (rows + kBlockRows - 1) / kBlockRows;
  return Launch("HeadScores", device,
                {.blocks = padded / kKeys,
                 .blocks_y = keys.heads * row_blocks,
                 .threads = kThreads,
                 .overlaps = true},
                HeadScoresKernel, args.x.data, keys.data.as<const float>(), rows, heads, shared,
                keys.rows, padded, keys.width, row_blocks, args.out.data);
}

absl::Status CudaVqAssign(Device& device, const VqAssignArgs& args) {
  const HeadKeys& codebook = *args.codebook;
  const int64_t rows = args.k.dim(0);
  if (rows == 0) return absl::OkStatus();
  absl::StatusOr<float*> scores =
      AsCuda(device).Scratch<float>(0, rows * codebook.heads * codebook.rows);
  if (!scores.ok()) return scores.status();
  const absl::Status status =
      CudaHeadScores(device, {args.k, &codebook, {*scores, {rows, codebook.heads, codebook.rows}}});
  if (!status.ok()) return status;
  return Launch("NearestCode", device,
                {.blocks = rows * codebook.heads, .threads = kAssignThreads, .overlaps = true},
                NearestCodeKernel, *scores, codebook.half_norm.as<const float>(), codebook.heads,
                codebook.rows, args.codes.data);
}

}  // namespace tvq::TVQ_CUDA
