// out[n,h,s] = x[n,h] . keys[h / (H/P), s].  x [N,H,K], keys [P,S,K], out [N,H,S].
// codes[n,g] = the first s with the largest k[n,g] . C[g,s] - |C[g,s]|^2 / 2, which is the nearest
// of the codebook.  k [N,G,K], C [G,S,K].
//
// One kernel computes up to three such products at once, whose blocks run beside each other. Keys
// lie in panels of 32, [P][ceil(S/32)][K][32], zero padded, so that lanes run over s. A block
// computes a panel for 16 rows of one key head: its 8 warps split K, and each takes 16 elements of
// its part at a time (up to K = 128 all of it). A thread has those of its key in registers, and
// loads the first while the kernel before ends. A warp has its part of the rows in shared memory,
// from where all lanes read the same four elements at once. Each of the 8 sums is one chain over
// its part of K, and they are added in the order of the warps: the order follows from K alone.
//
// The table, P S K floats, is read once for 16 rows, and x, N H K floats, once for 32 keys, all but
// the first time from the L2 cache. N H S floats are written; or, for codes, one candidate of every
// 32 codes, among which the last block to arrive chooses.
#include <algorithm>
#include <span>
#include <vector>

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/tickets.cuh"
#include "kernels/ops/attention/head_scores.h"

namespace tvq::TVQ_CUDA {
namespace {

constexpr int kKeys = kWarp;  // of a block
constexpr int kParts = 8;     // of K, a warp each
constexpr int kThreads = kKeys * kParts;
constexpr int kRows = 16;       // of a block
constexpr int kRowsAtOnce = 4;  // whose sums a thread adds to in turns
constexpr int kDepth = 16;      // elements of a part at a time
constexpr int kMostProducts = 3;

// The nearest so far; the lower code on a tie, and code 0 where no score compares (NaN).
struct alignas(8) Nearest {
  float score;
  int32_t code;
};
struct Nearer {
  __device__ Nearest operator()(const Nearest& a, const Nearest& b) const {
    return b.score > a.score || (b.score == a.score && b.code < a.code) ? b : a;
  }
};

// Rows of one key head: row r is x row (r / shared) * heads + key_head * shared + r % shared.
struct Product {
  const float* x;
  const float* keys;
  const float* half_norm;
  int heads, key_heads, shared, rows;
  int key_rows, width;
  // Scores, or codes.
  float* out;
  int32_t* codes;
  Nearest* nearest;   // [N * heads, KeyBlocks()]
  uint32_t* tickets;  // [key_heads, RowBlocks()]

  __host__ __device__ int KeyBlocks() const { return (key_rows + kKeys - 1) / kKeys; }
  __host__ __device__ int RowBlocks() const { return (rows + kRows - 1) / kRows; }
  int Blocks() const { return key_heads * KeyBlocks() * RowBlocks(); }
};

// The blocks of a product come behind those of the one before, from `first` on.
struct Products {
  Product product[kMostProducts];
  int first[kMostProducts];
};

struct alignas(16) Shared {
  int row[kRows];  // of x
  float x[kParts][kRows][kDepth];
  float sum[kParts][kRows][kKeys];
  uint32_t ticket;
};

// kFours: all parts are up to 16 elements, a whole number of float4 each.
template <bool kFours>
__global__ void __launch_bounds__(kThreads) HeadScoresKernel(Products products) {
  Shared& shared = BlockShared<Shared>();
  LetSuccessorBegin();
  int block = static_cast<int>(blockIdx.x), which = 0;
  for (int i = 1; i < kMostProducts; ++i) which += block >= products.first[i] ? 1 : 0;
  const Product& product = products.product[which];
  block -= products.first[which];
  const int key_blocks = product.KeyBlocks(), row_blocks = product.RowBlocks();
  const int key_block = block % key_blocks, row_block = block / key_blocks % row_blocks;
  const int key_head = block / key_blocks / row_blocks;
  const int first_row = row_block * kRows, rows = min(kRows, product.rows - first_row);
  if (const int r = static_cast<int>(threadIdx.x); r < rows) {
    const int row = first_row + r, shared_by = product.shared;
    shared.row[r] = row / shared_by * product.heads + key_head * shared_by + row % shared_by;
  }

  const int s = key_block * kKeys + LaneId();
  const int width = product.width, part = (width + kParts - 1) / kParts;
  const int first = min(part * WarpId(), width), end = min(first + part, width);
  const int64_t panel = key_head * key_blocks + key_block;
  const float* key = product.keys + panel * width * kKeys + LaneId();
  float held[kDepth];
  const auto hold = [&](int k0) {
    const float* from = key + k0 * kKeys;
#pragma unroll
    for (int i = 0; i < kDepth; ++i) held[i] = k0 + i < end ? from[i * kKeys] : 0;
  };
  hold(first);
  const bool chooses = product.codes != nullptr, is_key = s < product.key_rows;
  const float half_norm =
      chooses && is_key ? product.half_norm[key_head * product.key_rows + s] : 0;

  __syncthreads();
  WaitForPredecessor();

  // Brings a warp's part of all rows into shared memory; a lane brings four elements of every
  // eighth row. Rows beyond the last one are zero, and so are elements beyond the part's end.
  const auto bring = [&](int k0) {
    constexpr int kLanesOfRow = kDepth / 4, kRowStep = kWarp / kLanesOfRow;
    const int lane_row = LaneId() / kLanesOfRow, column = LaneId() % kLanesOfRow * 4;
    const int left = end - k0 - column;
    float4 x[kRows / kRowStep];
#pragma unroll
    for (int j = 0; j < kRows / kRowStep; ++j) {
      const int r = lane_row + j * kRowStep;
      x[j] = {0, 0, 0, 0};
      if (r >= rows || left <= 0) continue;
      const float* from = product.x + int64_t{shared.row[r]} * width + k0 + column;
      if constexpr (kFours) {
        x[j] = *reinterpret_cast<const float4*>(from);
      } else {
        x[j].x = from[0];
        if (left > 1) x[j].y = from[1];
        if (left > 2) x[j].z = from[2];
        if (left > 3) x[j].w = from[3];
      }
    }
#pragma unroll
    for (int j = 0; j < kRows / kRowStep; ++j) {
      float* to = &shared.x[WarpId()][lane_row + j * kRowStep][column];
      *reinterpret_cast<float4*>(to) = x[j];
    }
  };
  for (int k0 = first;;) {
    bring(k0);
    __syncwarp();
    for (int r0 = 0; r0 < rows; r0 += kRowsAtOnce) {
      float sum[kRowsAtOnce];
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        sum[r] = k0 == first ? 0 : shared.sum[WarpId()][r0 + r][LaneId()];
      }
#pragma unroll
      for (int i = 0; i < kDepth; i += 4) {
#pragma unroll
        for (int r = 0; r < kRowsAtOnce; ++r) {
          const float4 x = *reinterpret_cast<const float4*>(&shared.x[WarpId()][r0 + r][i]);
          sum[r] = fmaf(held[i], x.x, sum[r]);
          sum[r] = fmaf(held[i + 1], x.y, sum[r]);
          sum[r] = fmaf(held[i + 2], x.z, sum[r]);
          sum[r] = fmaf(held[i + 3], x.w, sum[r]);
        }
      }
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) shared.sum[WarpId()][r0 + r][LaneId()] = sum[r];
    }
    k0 += kDepth;
    if (kFours || k0 >= end) break;
    hold(k0);
    __syncwarp();
  }
  __syncthreads();

  for (int r = WarpId(); r < rows; r += kParts) {
    float total = shared.sum[0][r][LaneId()];
#pragma unroll
    for (int p = 1; p < kParts; ++p) total += shared.sum[p][r][LaneId()];
    if (!chooses) {
      if (is_key) product.out[int64_t{shared.row[r]} * product.key_rows + s] = total;
      continue;
    }
    Nearest best{-INFINITY, 0};
    const float score = total - half_norm;
    if (is_key && score > best.score) best = {score, s};
    best = WarpReduce(best, Nearer());
    if (LaneId() == 0) product.nearest[int64_t{shared.row[r]} * key_blocks + key_block] = best;
  }
  if (!chooses) return;

  uint32_t* ticket = product.tickets + key_head * row_blocks + row_block;
  if (!LastToArrive(ticket, key_blocks, shared.ticket)) return;
  for (int r = WarpId(); r < rows; r += kParts) {
    const int64_t row = int64_t{shared.row[r]};
    Nearest best{-INFINITY, 0};
    for (int b = LaneId(); b < key_blocks; b += kWarp) {
      best = Nearer()(best, product.nearest[row * key_blocks + b]);
    }
    best = WarpReduce(best, Nearer());
    if (LaneId() == 0) product.codes[row] = best.code;
  }
}

// x . keys, without a place for its results.
Product ProductOf(Tensor<const float, 3> x, const HeadKeys& keys) {
  const int64_t shared = x.dim(1) / keys.heads;
  return {.x = x.data,
          .keys = keys.data.as<const float>(),
          .half_norm = keys.half_norm.as<const float>(),
          .heads = static_cast<int>(x.dim(1)),
          .key_heads = static_cast<int>(keys.heads),
          .shared = static_cast<int>(shared),
          .rows = static_cast<int>(x.dim(0) * shared),
          .key_rows = static_cast<int>(keys.rows),
          .width = static_cast<int>(keys.width)};
}

Product Scores(const HeadScoresArgs& args) {
  Product product = ProductOf(args.x, *args.keys);
  product.out = args.out.data;
  return product;
}

// A launch has at most one assignment.
absl::StatusOr<Product> Assignment(Device& device, const VqAssignArgs& args) {
  Product product = ProductOf(args.k, *args.codebook);
  product.codes = args.codes.data;
  absl::StatusOr<Nearest*> nearest =
      AsCuda(device).Scratch<Nearest>(0, args.codes.size() * product.KeyBlocks());
  if (!nearest.ok()) return nearest.status();
  absl::StatusOr<uint32_t*> tickets =
      AsCuda(device).Tickets(product.key_heads * product.RowBlocks());
  if (!tickets.ok()) return tickets.status();
  product.nearest = *nearest;
  product.tickets = *tickets;
  return product;
}

bool InFours(const Product& product) {
  return product.width % (4 * kParts) == 0 && product.width <= kDepth * kParts &&
         reinterpret_cast<uintptr_t>(product.x) % sizeof(float4) == 0;
}

absl::Status Run(const char* name, Device& device, std::span<const Product> products) {
  Products all{};
  int blocks = 0;
  for (size_t i = 0; i < kMostProducts; ++i) {
    all.first[i] = blocks;
    if (i >= products.size()) continue;
    all.product[i] = products[i];
    blocks += products[i].Blocks();
  }
  const LaunchShape shape{.blocks = blocks, .threads = kThreads, .overlaps = true};
  return std::ranges::all_of(products, InFours)
             ? Launch(name, device, shape, HeadScoresKernel<true>, all)
             : Launch(name, device, shape, HeadScoresKernel<false>, all);
}

}  // namespace

absl::Status CudaPackHeadKeys(Device& device, const PackHeadKeysArgs& args) {
  const Tensor<const float, 3>& keys = args.keys;
  HeadKeys& packed = *args.packed = {keys.dim(0), keys.dim(1), keys.dim(2), {}, {}};
  const int64_t padded = (packed.rows + kKeys - 1) / kKeys * kKeys;
  std::vector<float> data(static_cast<size_t>(packed.heads * padded * packed.width));
  std::vector<float> half_norm(static_cast<size_t>(packed.heads * packed.rows));
  for (int64_t p = 0; p < packed.heads; ++p) {
    for (int64_t s = 0; s < packed.rows; ++s) {
      const float* key = keys.row(p) + s * packed.width;
      double norm = 0;
      for (int64_t k = 0; k < packed.width; ++k) {
        const int64_t panel = p * padded + s / kKeys * kKeys;
        data[static_cast<size_t>(panel * packed.width + k * kKeys + s % kKeys)] = key[k];
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
  return absl::OkStatus();
}

absl::Status CudaHeadScores(Device& device, const HeadScoresArgs& args) {
  if (args.out.size() == 0) return absl::OkStatus();
  return Run("HeadScores", device, {{Scores(args)}});
}

absl::Status CudaVqAssign(Device& device, const VqAssignArgs& args) {
  if (args.codes.size() == 0) return absl::OkStatus();
  const absl::StatusOr<Product> assignment = Assignment(device, args);
  return assignment.ok() ? Run("VqAssign", device, {{*assignment}}) : assignment.status();
}

// The assignment takes longest, so it comes first.
absl::Status CudaVqScores(Device& device, const VqScoresArgs& args) {
  if (args.assign.codes.size() == 0) return absl::OkStatus();
  const absl::StatusOr<Product> assignment = Assignment(device, args.assign);
  if (!assignment.ok()) return assignment.status();
  std::vector<Product> products{*assignment, Scores(args.code_scores)};
  if (args.scores_positions()) products.push_back(Scores(args.position_scores));
  return Run("VqScores", device, products);
}

}  // namespace tvq::TVQ_CUDA
