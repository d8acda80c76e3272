// Sums of a group of rows by VPDPBUSD, which multiplies four unsigned bytes with four signed ones
// and adds the products to an int32: values of four rows, interleaved, with the upper and the lower
// bytes of their factors.
#include <cstdlib>

#include "kernels/cpu/vq_attention/copy_sums.h"

#if defined(__x86_64__)

#include "kernels/cpu/avx512_vnni.h"

namespace tvq {
namespace {

using Ints = VnniInts;

// The columns of a scale. A vector of sums holds, in each 128 bits, four neighbours of 16 columns.
struct ScaleSums {
  Ints high[4];
  Ints low[4];
};

// 64 values, or those that `lanes` has a bit of.
template <bool kWhole>
TVQ_VNNI_TARGET inline __m512i LoadRow(const int8_t* from, uint64_t lanes) {
  return kWhole ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi8(lanes, from);
}

template <bool kWhole>
TVQ_VNNI_TARGET inline ScaleSums SumRows(const CopyGroup& group, int64_t scale, uint64_t lanes) {
  ScaleSums sums{};
  const int64_t column = scale * kVqScaleColumns;
  for (int64_t i = 0; i < group.rows; i += 4) {
    const __m512i r0 = LoadRow<kWhole>(group.row[i] + column, lanes);
    const __m512i r1 = LoadRow<kWhole>(group.row[i + 1] + column, lanes);
    const __m512i r2 = LoadRow<kWhole>(group.row[i + 2] + column, lanes);
    const __m512i r3 = LoadRow<kWhole>(group.row[i + 3] + column, lanes);
    const __m512i even_lower = _mm512_unpacklo_epi8(r0, r2);
    const __m512i even_upper = _mm512_unpackhi_epi8(r0, r2);
    const __m512i odd_lower = _mm512_unpacklo_epi8(r1, r3);
    const __m512i odd_upper = _mm512_unpackhi_epi8(r1, r3);
    const __m512i four[4] = {
        _mm512_unpacklo_epi16(even_lower, odd_lower), _mm512_unpackhi_epi16(even_lower, odd_lower),
        _mm512_unpacklo_epi16(even_upper, odd_upper), _mm512_unpackhi_epi16(even_upper, odd_upper)};
    const __m512i high = _mm512_set1_epi32(static_cast<int>(group.factor[i / 2][scale]));
    const __m512i low = _mm512_set1_epi32(static_cast<int>(group.factor[i / 2 + 1][scale]));
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      sums.high[v] = AddDot(sums.high[v], high, four[v]);
      sums.low[v] = AddDot(sums.low[v], low, four[v]);
    }
  }
  return sums;
}

// out[16 v ..] += step * sums, for the columns that `lanes` has a bit of each.
TVQ_VNNI_TARGET inline void AddSums(const ScaleSums& sums, float step, uint64_t lanes, float* out) {
  constexpr __mmask16 kAll = 0xffff;
  __m512i sum[4];
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) sum[v] = (__m512i)((sums.high[v] << 8) + sums.low[v]);
  // Columns in order: a transposition of 4 x 4 quarters of vectors.
  const __m512i a = _mm512_maskz_shuffle_i32x4(kAll, sum[0], sum[1], 0x44);
  const __m512i b = _mm512_maskz_shuffle_i32x4(kAll, sum[2], sum[3], 0x44);
  const __m512i c = _mm512_maskz_shuffle_i32x4(kAll, sum[0], sum[1], 0xee);
  const __m512i d = _mm512_maskz_shuffle_i32x4(kAll, sum[2], sum[3], 0xee);
  const __m512i ordered[4] = {
      _mm512_maskz_shuffle_i32x4(kAll, a, b, 0x88), _mm512_maskz_shuffle_i32x4(kAll, a, b, 0xdd),
      _mm512_maskz_shuffle_i32x4(kAll, c, d, 0x88), _mm512_maskz_shuffle_i32x4(kAll, c, d, 0xdd)};
  const __m512 steps = _mm512_set1_ps(step);
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const auto mask = static_cast<__mmask16>(lanes >> (16 * v));
    const __m512 added = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(kAll, ordered[v]), steps,
                                         _mm512_maskz_loadu_ps(mask, out + 16 * v));
    _mm512_mask_storeu_ps(out + 16 * v, mask, added);
  }
}

template <bool kWhole>
TVQ_VNNI_TARGET inline void AddScale(const CopyGroup& group, int64_t scale, uint64_t lanes) {
  group.fetch->Turn(group.rows);
  AddSums(SumRows<kWhole>(group, scale, lanes), group.step[scale], lanes,
          group.out + scale * kVqScaleColumns);
}

TVQ_VNNI_TARGET void AddGroup(const CopyGroup& group) {
  const int64_t whole = group.columns / kVqScaleColumns;
  for (int64_t scale = 0; scale < whole; ++scale) AddScale<true>(group, scale, ~uint64_t{0});
  const int64_t rest = group.columns % kVqScaleColumns;
  if (rest > 0) AddScale<false>(group, whole, (uint64_t{1} << rest) - 1);
}

}  // namespace

void AddCopyGroupDot(const CopyGroup& group) { AddGroup(group); }

}  // namespace tvq

#else

namespace tvq {

void AddCopyGroupDot(const CopyGroup&) { std::abort(); }

}  // namespace tvq

#endif
