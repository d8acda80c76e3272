// The tile product of int8 weights and fixed-point rows by VPDPBUSD, once for the upper bytes of x
// and once for the lower ones, on the vectors of kernels/cpu/vnni-inl.h.
#ifndef TVQ_KERNELS_CPU_LINEAR_TILE_VNNI_INL_H_
#define TVQ_KERNELS_CPU_LINEAR_TILE_VNNI_INL_H_

#include <cstring>

#include "kernels/cpu/linear/fixed_point.h"
#include "kernels/cpu/linear/tile.h"
#include "kernels/cpu/vnni-inl.h"

namespace tvq::TVQ_VNNI_NAMESPACE {

// (256 high + low) step, as fixed_point.h has it, of sums that lack the head's offsets.
TVQ_VNNI_TARGET inline Floats Scaled(Ints high, Ints low, const FixedPointHead& head) {
  low += head.low_offset;
  const Ints carried = high + head.high_offset + (low >> 8);
  const Floats sum = __builtin_convertvector(carried, Floats) * 256.0F +
                     __builtin_convertvector(low & 255, Floats);
  return sum * head.step;
}

// R rows of the tile, from `row` on, by P panels, from `panel` on: 4 R P accumulators for 256 bits,
// half as many for 512.
template <int R, int P>
TVQ_VNNI_TARGET void SumBytes(const TileInput& input, int64_t row, int64_t panel, AheadFetch ahead,
                              float* sums) {
  constexpr int kPanelVectors = static_cast<int>(kPanelOutputs / kVectorInts);
  constexpr int kVectors = P * kPanelVectors;
  const int64_t lines = PanelLines(input.in, DType::kInt8);
  const int64_t stride = input.row_bytes;
  const char* rows = static_cast<const char*>(input.rows) + row * stride;
  const char* x_high = rows + sizeof(FixedPointHead);
  const char* x_low = x_high + FixedPointValues(input.in);
  const char* w[P];
#pragma GCC unroll 2
  for (int p = 0; p < P; ++p) {
    w[p] = static_cast<const char*>(input.panels) + (panel + p) * kLineBytes;
  }
  Ints high[R][kVectors], low[R][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) high[r][v] = low[r][v] = Ints{};
  }
  for (int64_t line = 0; line < lines; ++line) {
    ahead.Turn();
    Bytes weights[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = LoadBytes(w[v / kPanelVectors] + v % kPanelVectors * kVectorBytes);
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const Bytes h = Broadcast(x_high + r * stride);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) high[r][v] = AddDot(high[r][v], weights[v], h);
      const Bytes l = Broadcast(x_low + r * stride);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) low[r][v] = AddDot(low[r][v], weights[v], l);
    }
#pragma GCC unroll 2
    for (int p = 0; p < P; ++p) w[p] += kPairLineBytes;
    x_high += 4;
    x_low += 4;
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    FixedPointHead head;
    std::memcpy(&head, rows + r * stride, sizeof(head));
    float* to = sums + (row + r) * kPairOutputs + panel * kPanelOutputs;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      TVQ_MM(storeu_ps)(to + v * kVectorInts, Scaled(high[r][v], low[r][v], head));
    }
  }
}

}  // namespace tvq::TVQ_VNNI_NAMESPACE

#endif  // TVQ_KERNELS_CPU_LINEAR_TILE_VNNI_INL_H_
