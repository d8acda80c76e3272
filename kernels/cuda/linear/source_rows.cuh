// The rows of a projection on their way to its product: x, x * gate or the norm of x (RowSource in
// linear_rows.h), rounded to bfloat16 or not.
#ifndef TVQ_KERNELS_CUDA_LINEAR_SOURCE_ROWS_CUH_
#define TVQ_KERNELS_CUDA_LINEAR_SOURCE_ROWS_CUH_

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/cuda/common/row_norm.cuh"
#include "kernels/cuda/linear/linear_rows.h"
#include "kernels/numbers/bfloat16.h"

namespace tvq::TVQ_CUDA {

// kCount elements that are read or written at once.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Group {
  T element[kCount];
};

struct SourceRows {
  explicit SourceRows(const RowSource& source)
      : x(source.x.data),
        gate(source.gate),
        gain(source.gain),
        bias(source.bias),
        rows(static_cast<int>(source.x.dim(0))),
        width(static_cast<int>(source.x.dim(1))),
        normed(source.norm.has_value()),
        norm(source.norm.value_or(Norm::kRms)) {
    const auto aligned = [](const float* array) {
      return reinterpret_cast<uintptr_t>(array) % alignof(Group<float, 4>) == 0;
    };
    in_fours = width % 4 == 0 && aligned(x) && aligned(gate) && aligned(gain) && aligned(bias);
  }

  __device__ const float* Row(int row) const { return x + static_cast<int64_t>(row) * width; }

  // Prepares elements [i, i + kCount) of a row, whose norm is `of_row`, and writes them to `to`.
  // kCount: 1, or 4 if `in_fours`.
  template <int kCount, typename T>
  __device__ void Prepare(int row, int i, const RowNorm& of_row, T* to) const {
    using Floats = Group<float, kCount>;
    const auto read = [](const float* from) { return *reinterpret_cast<const Floats*>(from); };
    Floats value{};
    if (i < width) {
      value = read(Row(row) + i);
      const int64_t at = static_cast<int64_t>(row) * width + i;
      const Floats gates = gate != nullptr ? read(gate + at) : Floats{};
      const Floats gains = gain != nullptr ? read(gain + i) : Floats{};
      const Floats biases = bias != nullptr ? read(bias + i) : Floats{};
#pragma unroll
      for (int c = 0; c < kCount; ++c) {
        if (normed) value.element[c] = of_row(value.element[c]);
        if (gate != nullptr) value.element[c] *= gates.element[c];
        if (gain != nullptr) value.element[c] *= gains.element[c];
        if (bias != nullptr) value.element[c] += biases.element[c];
      }
    }
    Group<T, kCount> prepared;
#pragma unroll
    for (int c = 0; c < kCount; ++c) StoreAs(value.element[c], &prepared.element[c]);
    *reinterpret_cast<Group<T, kCount>*>(to) = prepared;
  }

  const float* x;     // [rows][width]
  const float* gate;  // [rows][width]
  const float* gain;  // [width]
  const float* bias;  // [width]
  int rows, width;
  bool normed;
  Norm norm;
  bool in_fours;
};

// Prefetches what a block of kNormThreads will read of gain and bias; may be called ahead of the
// wait.
__device__ inline void PrefetchGains(const SourceRows& source) {
  constexpr int kLine = 32;  // floats
  for (int i = static_cast<int>(threadIdx.x) * kLine; i < source.width; i += kNormThreads * kLine) {
    if (source.gain != nullptr) AskFor(source.gain + i);
    if (source.bias != nullptr) AskFor(source.bias + i);
  }
}

// Prepares the share of thread `thread` of `threads` in a row's elements [begin, end), and writes
// it to to_row[element], where possible in fours that are aligned. `begin` is a multiple of 4;
// elements beyond the width are zero.
template <typename T>
__device__ inline void PrepareElements(const SourceRows& source, int row, const RowNorm& of_row,
                                       int begin, int end, int thread, int threads, T* to_row) {
  if (source.in_fours) {
#pragma unroll 2
    for (int i = begin + thread * 4; i < end; i += threads * 4) {
      source.Prepare<4>(row, i, of_row, to_row + i);
    }
  } else {
    for (int i = begin + thread; i < end; i += threads) {
      source.Prepare<1>(row, i, of_row, to_row + i);
    }
  }
}

// Prepares elements [begin, end) of several rows, and writes them to `to` [rows][pitch], which is
// 16 byte aligned; `pitch` is a multiple of 8 (see PrepareElements). One or more warps of a block
// of kNormThreads share a row, without a barrier.
template <typename T>
__device__ void PrepareRowsHere(const SourceRows& source, int begin, int end, T* to, int pitch) {
  constexpr int kWarps = kNormThreads / kWarp;
  const int rows = source.rows;
  const int sharing = rows > 4 ? 1 : rows > 2 ? 2 : 4;  // warps that share a row
  const int lane = WarpId() % sharing * kWarp + LaneId(), lanes = sharing * kWarp;
  for (int row = WarpId() / sharing; row < rows; row += kWarps / sharing) {
    RowNorm of_row;
    if (source.normed) {
      of_row = NormOfRowByWarp(source.norm, source.Row(row), source.width);
    }
    PrepareElements(source, row, of_row, begin, end, lane, lanes, to + row * pitch - begin);
  }
}

// The same, bit for bit, for a single row, which all warps of the block norm together: barriers
// cost less than norming it eight times. `partial` as for BlockReduce.
template <typename T>
__device__ void PrepareRowHere(const SourceRows& source, int begin, int end, T* to,
                               float* partial) {
  RowNorm of_row;
  if (source.normed) of_row = NormOfRow(source.norm, source.x, source.width, partial);
  PrepareElements(source, 0, of_row, begin, end, static_cast<int>(threadIdx.x), kNormThreads,
                  to - begin);
}

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_LINEAR_SOURCE_ROWS_CUH_
