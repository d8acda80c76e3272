// The tile products of int8 and int4 weights and fixed-point rows by VPDPBUSD, once for the upper
// bytes of x and once for the lower ones, on the vectors of kernels/cpu/vnni-inl.h. Bytes of int4
// are taken apart in registers, one group of `in` after the other.
#ifndef TVQ_KERNELS_CPU_LINEAR_TILE_VNNI_INL_H_
#define TVQ_KERNELS_CPU_LINEAR_TILE_VNNI_INL_H_

#include <cstring>

#include "kernels/cpu/linear/fixed_point.h"
#include "kernels/cpu/linear/tile.h"
#include "kernels/cpu/vnni-inl.h"

namespace tvq::TVQ_VNNI_NAMESPACE {

// Adds the head's offsets to the sums and returns (256 high + low) step, as fixed_point.h has it.
TVQ_VNNI_TARGET inline Floats Scaled(Ints high, Ints low, const FixedPointHead& head) {
  low += head.low_offset;
  const Ints carried = high + head.high_offset + (low >> 8);
  const Floats sum = __builtin_convertvector(carried, Floats) * 256.0F +
                     __builtin_convertvector(low & 255, Floats);
  return sum * head.step;
}

using Halves = uint16_t __attribute__((vector_size(TVQ_VNNI_BITS / 16)));

// bfloat16 scales of a vector's outputs.
TVQ_VNNI_TARGET inline Floats LoadScales(const char* scales) {
  Halves halves;
  std::memcpy(&halves, scales, sizeof(halves));
  return (Floats)(__builtin_convertvector(halves, Ints) << 16);
}

// The lower halves of bytes, or the upper ones.
TVQ_VNNI_TARGET inline Bytes HalfOf(Bytes two, int half) {
  return (half == 0 ? two : TVQ_MM(srli_epi16)(two, 4)) & TVQ_MM(set1_epi8)(15);
}

// sums += (256 high + low) scales.
TVQ_VNNI_TARGET inline void AddGroup(Ints high, Ints low, Floats scales, float* sums) {
  const Floats group = __builtin_convertvector((high << 8) + low, Floats);
  TVQ_MM(storeu_ps)(sums, TVQ_MM(loadu_ps)(sums) + group * scales);
}

// For each kind of weight, Lines says how many lines a tile has in a panel, and Sum computes the
// sums of R rows of the tile, from `row` on, and P panels, from `panel` on. It takes 4 R P
// accumulators of 256 bits, or half as many of 512.
struct Int8Panels {
  static int64_t Lines(int64_t in) { return PanelLines(in, DType::kInt8); }

  template <int R, int P>
  TVQ_VNNI_TARGET static void Sum(const TileInput& input, int64_t row, int64_t panel,
                                  AheadFetch ahead, float* sums) {
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
};

struct Int4Panels {
  static int64_t Lines(int64_t in) { return Int4Groups(in) * kInt4PanelLines; }

  template <int R, int P>
  TVQ_VNNI_TARGET static void Sum(const TileInput& input, int64_t row, int64_t panel,
                                  AheadFetch ahead, float* sums) {
    constexpr int kPanelVectors = static_cast<int>(kPanelOutputs / kVectorInts);
    constexpr int kVectors = P * kPanelVectors;
    const int64_t groups = Int4Groups(input.in), values = GroupedValues(input.in);
    const int64_t stride = input.row_bytes;
    const char* rows = static_cast<const char*>(input.rows) + row * stride;
    const char* x_high = rows + sizeof(FixedPointHead);
    const char* offset = x_high + 2 * values;
    const char* group = static_cast<const char*>(input.panels);
    sums += row * kPairOutputs + panel * kPanelOutputs;
    for (int r = 0; r < R; ++r) {
      std::memset(sums + r * kPairOutputs, 0, sizeof(float) * P * kPanelOutputs);
    }
    for (int64_t g = 0; g < groups; ++g, group += kInt4PairLines * kLineBytes) {
      Ints high[R][kVectors], low[R][kVectors];
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          high[r][v] = Ints{};
          low[r][v] = (Ints)Broadcast(offset + r * stride);
        }
      }
      const char* w = group + (1 + panel * kInt4PanelLines) * kLineBytes;
      for (int64_t line = 0; line < kInt4PanelLines; ++line, w += kLineBytes, x_high += 8) {
        ahead.Turn();
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
          Bytes weights[kVectors];
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) {
            const char* from = w + v / kPanelVectors * kInt4PanelLines * kLineBytes +
                               v % kPanelVectors * kVectorBytes;
            weights[v] = HalfOf(LoadBytes(from), half);
          }
#pragma GCC unroll 6
          for (int r = 0; r < R; ++r) {
            const char* x = x_high + r * stride + 4 * half;
            const Bytes h = Broadcast(x);
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) high[r][v] = AddDot(high[r][v], weights[v], h);
            const Bytes l = Broadcast(x + values);
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) low[r][v] = AddDot(low[r][v], weights[v], l);
          }
        }
      }
      offset += sizeof(int32_t);
      const char* scales = group + panel * kPanelOutputs * static_cast<int64_t>(sizeof(uint16_t));
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          AddGroup(high[r][v], low[r][v], LoadScales(scales + v * static_cast<int>(sizeof(Halves))),
                   sums + r * kPairOutputs + v * kVectorInts);
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      FixedPointHead head;
      std::memcpy(&head, rows + r * stride, sizeof(head));
      for (int64_t o = 0; o < P * kPanelOutputs; ++o) sums[r * kPairOutputs + o] *= head.step;
    }
  }
};

}  // namespace tvq::TVQ_VNNI_NAMESPACE

#endif  // TVQ_KERNELS_CPU_LINEAR_TILE_VNNI_INL_H_
