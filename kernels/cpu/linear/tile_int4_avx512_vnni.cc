// The tile product of int4 weights and fixed-point rows by VPDPBUSD: as that of int8 weights, of
// bytes that are taken apart in registers, one group of `in` after the other.
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/linear/fixed_point.h"
#include "kernels/cpu/linear/tile.h"

#if defined(__x86_64__)

#define TVQ_VNNI_BITS 512
#include "kernels/cpu/vnni-inl.h"

namespace tvq {
namespace avx512_vnni {
namespace {

constexpr __mmask16 kAll = 0xffff;

// Sixteen bfloat16. By `maskz` because g++ 12 warns of the plain forms' undefined vector.
TVQ_VNNI_TARGET inline __m512 LoadScales(const char* scales) {
  const __m256i halves = _mm256_load_si256(reinterpret_cast<const __m256i*>(scales));
  return (__m512)_mm512_maskz_slli_epi32(kAll, _mm512_maskz_cvtepu16_epi32(kAll, halves), 16);
}

// sums += (256 high + low) scales.
TVQ_VNNI_TARGET inline void AddGroup(Ints high, Ints low, __m512 scales, float* sums) {
  const __m512 group = _mm512_maskz_cvtepi32_ps(kAll, (__m512i)((high << 8) + low));
  _mm512_storeu_ps(sums, _mm512_add_ps(_mm512_loadu_ps(sums), _mm512_mul_ps(group, scales)));
}

// R rows by two panels.
template <int R>
TVQ_VNNI_TARGET void SumGroups(const TileInput& input, float* sums) {
  const int64_t groups = Int4Groups(input.in), values = GroupedValues(input.in);
  const int64_t stride = input.row_bytes;
  const char* w = static_cast<const char*>(input.panels);
  const char* rows = static_cast<const char*>(input.rows);
  const char* x_high = rows + sizeof(FixedPointHead);
  const char* offset = x_high + 2 * values;
  const __m512i lower_half = _mm512_set1_epi8(15);
  std::memset(sums, 0, sizeof(float) * R * kPairOutputs);
  AheadFetch ahead(input, groups * kInt4PanelLines);
  for (int64_t g = 0; g < groups; ++g) {
    const __m512 scales[2] = {LoadScales(w), LoadScales(w + kLineBytes / 2)};
    w += kLineBytes;
    Ints high[R][2], low[R][2];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      high[r][0] = high[r][1] = Ints{};
      low[r][0] = low[r][1] = (Ints)Broadcast(offset + r * stride);
    }
    for (int64_t line = 0; line < kInt4PanelLines; ++line) {
      ahead.Turn();
      const __m512i a = _mm512_load_si512(w);
      const __m512i b = _mm512_load_si512(w + kInt4PanelLines * kLineBytes);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const __m512i a_half = (half == 0 ? a : _mm512_srli_epi16(a, 4)) & lower_half;
        const __m512i b_half = (half == 0 ? b : _mm512_srli_epi16(b, 4)) & lower_half;
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) {
          const char* x = x_high + r * stride + 4 * half;
          const __m512i h = Broadcast(x);
          high[r][0] = AddDot(high[r][0], a_half, h);
          high[r][1] = AddDot(high[r][1], b_half, h);
          const __m512i l = Broadcast(x + values);
          low[r][0] = AddDot(low[r][0], a_half, l);
          low[r][1] = AddDot(low[r][1], b_half, l);
        }
      }
      w += kLineBytes;
      x_high += 8;
    }
    w += kInt4PanelLines * kLineBytes;
    offset += sizeof(int32_t);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int p = 0; p < 2; ++p) {
        AddGroup(high[r][p], low[r][p], scales[p], sums + r * kPairOutputs + p * kPanelOutputs);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    FixedPointHead head;
    std::memcpy(&head, rows + r * stride, sizeof(head));
    for (int64_t o = 0; o < kPairOutputs; ++o) sums[r * kPairOutputs + o] *= head.step;
  }
}

}  // namespace
}  // namespace avx512_vnni

void TileInt4Dot(const TileInput& input, float* sums) {
  static constexpr TileFunction kByRows[kTileRows] = {
      avx512_vnni::SumGroups<1>, avx512_vnni::SumGroups<2>, avx512_vnni::SumGroups<3>,
      avx512_vnni::SumGroups<4>, avx512_vnni::SumGroups<5>, avx512_vnni::SumGroups<6>};
  kByRows[input.row_count - 1](input, sums);
}

}  // namespace tvq

#else

namespace tvq {

void TileInt4Dot(const TileInput&, float*) { std::abort(); }

}  // namespace tvq

#endif
