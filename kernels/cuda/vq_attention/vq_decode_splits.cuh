// The softmax over the rows of a session in splits of kReadRows, for decode that reads all of them
// exactly (vq_decode_attention.cu): the weights of a split's rows, relative to the largest among
// them, and the output from the results of all splits.
#ifndef TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_DECODE_SPLITS_CUH_
#define TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_DECODE_SPLITS_CUH_

#include "kernels/cuda/vq_attention/vq_decode.cuh"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq::TVQ_CUDA {

// A session's key/value head, as a block sees it.
struct Place {
  int64_t n, g;
  int32_t codes, window;
  int32_t slot;     // of the window, which the position takes
  int32_t recent;   // slots that hold a position then
  bool retires;     // a value leaves the window, and others may have before
  int32_t retired;  // its code; not known ahead of the wait

  // Whether a row exists, and its values lie in memory.
  __device__ bool IsRead(int32_t row) const {
    return row < codes ? retires : row - codes < recent && row - codes != slot;
  }
};

__device__ inline Place PlaceOf(const VqDecode& args, int32_t unit) {
  const auto kv_heads = static_cast<int32_t>(args.shape.kv_heads);
  Place at{.n = unit / kv_heads,
           .g = unit % kv_heads,
           .codes = static_cast<int32_t>(args.shape.codes),
           .window = static_cast<int32_t>(args.shape.window)};
  const int64_t position = args.states[at.n].none() ? 0 : args.positions[at.n];
  at.slot = static_cast<int32_t>(position % at.window);
  at.retires = position >= at.window;
  at.recent = at.retires ? at.window : at.slot + 1;
  return at;
}

// The score of a row and how many positions it stands for, 0: for none.
struct RowScore {
  float score = -INFINITY;
  float count = 0;
};
__device__ inline RowScore ScoreOf(const VqDecode& args, const Place& at, int64_t h, int32_t row) {
  const VqState& state = args.states[at.n];
  const float* code_scores = args.code_scores + (at.n * args.heads + h) * at.codes;
  if (row < at.codes) {
    const int64_t count = state.count[at.g * at.codes + row] + (row == at.retired ? 1 : 0);
    return count > 0 ? RowScore{code_scores[row], static_cast<float>(count)} : RowScore{};
  }
  const int32_t slot = row - at.codes;
  if (slot >= at.recent) return {};
  const int32_t distance = slot <= at.slot ? at.slot - slot : at.slot - slot + at.window;
  const int32_t code = distance == 0 ? args.codes[at.n * args.shape.kv_heads + at.g]
                                     : state.window_code[at.g * at.window + slot];
  const float* position_scores = args.position_scores + (at.n * args.heads + h) * at.window;
  return {code_scores[code] + position_scores[distance], 1};
}

// What the weights of kReadRows rows come to.
struct RowsWeight {
  float largest;  // score; -inf: no row exists
  float sum;      // of the weights of their positions, relative to that
};

// Computes the weights of the rows from `first` on for head h, relative to the largest score among
// them. To be called by a warp, every lane of which receives what they come to.
__device__ inline RowsWeight WeighRows(const VqDecode& args, const Place& at, int64_t h,
                                       int32_t first, float* weights) {
  static_assert(kReadRows == 2 * kWarp);
  const int32_t rows = at.codes + at.window;
  RowScore own[2];
  float largest = -INFINITY, sum = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int32_t row = first + i * kWarp + LaneId();
    if (row < rows) own[i] = ScoreOf(args, at, h, row);
    largest = Max()(largest, own[i].score);
  }
  largest = WarpReduce(largest, Max());
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float weight = own[i].count > 0 ? expf(own[i].score - largest) : 0;
    weights[i * kWarp + LaneId()] = weight;
    sum = fmaf(weight, own[i].count, sum);
  }
  return {largest, WarpReduce(sum, Add())};
}

// What blocks write for the last of them to add up, and how they divide the work.
struct Parts {
  float* sum;          // [N, H, column blocks, splits][columns]
  RowsWeight* weight;  // [N, H, column blocks, splits]
  int32_t columns;     // of a block
  int32_t column_blocks;
  int32_t groups;  // blocks that share the splits of a piece of columns
};

// Computes kOwn columns of a head's output, next to each other, from the results of all splits:
// `weights`, and `sums`, which lie `pitch` apart. `left`: columns to the end of the row; with
// kAligned never 1 to kOwn - 1. To be called by all lanes of a warp, with the same head.
//
// It runs once, with nothing else to do meanwhile. So a thread starts all its loads before it uses
// any of them. The loop around the loads is not unrolled: instructions that run only once take as
// long as it takes to fetch them.
template <int kOwn, bool kAligned>
__device__ inline void AddParts(const RowsWeight* weights, const float* sums, int32_t splits,
                                int32_t pitch, int32_t left, float* out) {
  constexpr int kAtOnce = kOwn == 1 ? 20 : 9;  // splits whose parts are in registers at once
  static_assert(kAtOnce <= kWarp);
  float largest = -INFINITY, weight = 0, total[kOwn] = {};
#pragma unroll 1
  for (int32_t first = 0; first < splits; first += kAtOnce) {
    RowsWeight of_lane{-INFINITY, 0};
    if (LaneId() < min(kAtOnce, splits - first)) of_lane = weights[first + LaneId()];
    float part[kAtOnce][kOwn] = {};
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (first + j < splits) LoadRow<kOwn, true>(sums, kOwn, part[j]);
      sums += pitch;
    }
    if (first == 0) {
#pragma unroll 1
      for (int32_t s = LaneId(); s < splits; s += kWarp) {
        largest = Max()(largest, weights[s].largest);
      }
      largest = WarpReduce(largest, Max());
    }
    const float scale_of_lane = expf(of_lane.largest - largest);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const float scale = __shfl_sync(kAllLanes, scale_of_lane, j);
      weight = fmaf(scale, __shfl_sync(kAllLanes, of_lane.sum, j), weight);
#pragma unroll
      for (int c = 0; c < kOwn; ++c) total[c] = fmaf(scale, part[j][c], total[c]);
    }
  }
  struct alignas(sizeof(float) * kOwn) Outputs {
    float column[kOwn];
  } outputs;
#pragma unroll
  for (int c = 0; c < kOwn; ++c) outputs.column[c] = total[c] / weight;
  if constexpr (kAligned) {
    if (left > 0) *reinterpret_cast<Outputs*>(out) = outputs;
  } else {
    for (int c = 0; c < kOwn && c < left; ++c) out[c] = outputs.column[c];
  }
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_VQ_ATTENTION_VQ_DECODE_SPLITS_CUH_
