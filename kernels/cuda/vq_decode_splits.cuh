// Softmax over the rows of a session in splits of kReadRows, of decode that reads all of them
// exactly (vq_decode_attention.cu): the weights of a split's rows, relative to the largest among
// them, and the output from what all splits left.
#ifndef TVQ_KERNELS_CUDA_VQ_DECODE_SPLITS_CUH_
#define TVQ_KERNELS_CUDA_VQ_DECODE_SPLITS_CUH_

#include "kernels/cuda/vq_decode.cuh"

namespace tvq::TVQ_CUDA {

// A session's key/value head, as a block sees it.
struct Place {
  int64_t n, g;
  int32_t codes, window;
  int32_t slot;     // of the window, which the position takes
  int32_t recent;   // slots that are somebody's then
  bool retires;     // a value leaves the window, and others may have before
  int32_t retired;  // its code; not known ahead of the wait

  // Whether a row is there, and its values lie in memory.
  __device__ bool IsRead(int32_t row) const {
    return row < codes ? retires : row - codes < recent && row - codes != slot;
  }
};

__device__ inline Place PlaceOf(const VqDecode& args, int64_t unit) {
  Place at{.n = unit / args.shape.kv_heads,
           .g = unit % args.shape.kv_heads,
           .codes = static_cast<int32_t>(args.shape.codes),
           .window = static_cast<int32_t>(args.shape.window)};
  const int64_t position = args.states[at.n].none() ? 0 : args.positions[at.n];
  at.slot = static_cast<int32_t>(position % at.window);
  at.retires = position >= at.window;
  at.recent = at.retires ? at.window : at.slot + 1;
  return at;
}

// The score of a row and how many positions it stands for, 0: it is nobody's.
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

// Of kReadRows rows together.
struct RowsWeight {
  float largest;  // score, -inf: none is there
  float sum;      // of the weights of their positions, relative to that
};

// Weights of the rows from `first` on for head h, relative to the largest score among them. For a
// warp, every lane of which receives what they come to.
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

// What blocks leave for the last of them, and how they divide the work.
struct Parts {
  float* sum;          // [N, H, column blocks, splits][columns]
  RowsWeight* weight;  // [N, H, column blocks, splits]
  int32_t columns;     // of a block
  int32_t column_blocks;
  int32_t groups;  // blocks that share the splits of a piece of columns
};

// Outputs of a piece of columns from what all splits left, for a block.
__device__ inline void AddParts(const VqDecode& args, const Parts& parts, int32_t splits,
                                int64_t first_head, int64_t heads, int32_t column_block) {
  const int32_t outputs = static_cast<int32_t>(heads) * parts.columns;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < outputs;
       i += static_cast<int32_t>(blockDim.x)) {
    const int64_t head = first_head + i / parts.columns;  // one a warp
    const int32_t c = i % parts.columns;
    const int64_t first_part = (head * parts.column_blocks + column_block) * splits;
    const RowsWeight* of_split = parts.weight + first_part;
    const float* sum_of_split = parts.sum + first_part * parts.columns + c;
    float largest = -INFINITY, total = 0, weight = 0;
    for (int32_t s = LaneId(); s < splits; s += kWarp) {
      largest = Max()(largest, of_split[s].largest);
    }
    largest = WarpReduce(largest, Max());
    for (int32_t s0 = 0; s0 < splits; s0 += kWarp) {
      const RowsWeight lanes =
          s0 + LaneId() < splits ? of_split[s0 + LaneId()] : RowsWeight{-INFINITY, 0};
      const float scale_of_lane = expf(lanes.largest - largest);
      constexpr int kAtOnce = 16;
      for (int32_t s1 = s0; s1 < min(s0 + kWarp, splits); s1 += kAtOnce) {
        float part[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          part[j] = s1 + j < splits ? sum_of_split[(s1 + j) * parts.columns] : 0;
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const float scale = __shfl_sync(kAllLanes, scale_of_lane, s1 - s0 + j);
          total = fmaf(scale, part[j], total);
          weight = fmaf(scale, __shfl_sync(kAllLanes, lanes.sum, s1 - s0 + j), weight);
        }
      }
    }
    const int64_t column = int64_t{column_block} * parts.columns + c;
    if (column < args.shape.value) args.out[head * args.shape.value + column] = total / weight;
  }
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_VQ_DECODE_SPLITS_CUH_
