// Sums of a group of rows by VPDPBUSD, on the vectors of kernels/cpu/vnni-inl.h. The values of four
// rows are interleaved. They are multiplied by the upper and the lower bytes of the rows' factors.
#ifndef TVQ_KERNELS_CPU_VQ_ATTENTION_COPY_SUMS_VNNI_INL_H_
#define TVQ_KERNELS_CPU_VQ_ATTENTION_COPY_SUMS_VNNI_INL_H_

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/vnni-inl.h"
#include "kernels/cpu/vq_attention/copy_sums.h"

namespace tvq::TVQ_VNNI_NAMESPACE {

// Loads as many values as a vector has bytes; without kWhole only `columns` of them, and zeros.
template <bool kWhole>
TVQ_VNNI_TARGET inline Bytes LoadValues(const int8_t* from, int64_t columns) {
  if constexpr (kWhole) {
    return LoadBytes(from);
  } else {
#if TVQ_VNNI_BITS == 512
    return _mm512_maskz_loadu_epi8((uint64_t{1} << columns) - 1, from);
#else
    alignas(kVectorBytes) int8_t values[kVectorBytes] = {};
    std::memcpy(values, from, static_cast<size_t>(columns));
    return LoadBytes(values);
#endif
  }
}

// Adds rows [row, row + 4) to the sums of as many columns as a vector has bytes, from `column` on:
// the sums are four vectors, each with four neighbours out of 16 columns in each of its 128 bits.
template <bool kWhole>
TVQ_VNNI_TARGET inline void AddFourRows(const CopyGroup& group, int64_t row, int64_t column,
                                        int64_t columns, Ints* sums) {
  const int64_t scale = column / kVqScaleColumns;
  const Bytes r0 = LoadValues<kWhole>(group.row[row] + column, columns);
  const Bytes r1 = LoadValues<kWhole>(group.row[row + 1] + column, columns);
  const Bytes r2 = LoadValues<kWhole>(group.row[row + 2] + column, columns);
  const Bytes r3 = LoadValues<kWhole>(group.row[row + 3] + column, columns);
  const Bytes even_lower = TVQ_MM(unpacklo_epi8)(r0, r2);
  const Bytes even_upper = TVQ_MM(unpackhi_epi8)(r0, r2);
  const Bytes odd_lower = TVQ_MM(unpacklo_epi8)(r1, r3);
  const Bytes odd_upper = TVQ_MM(unpackhi_epi8)(r1, r3);
  const Bytes four[4] = {
      TVQ_MM(unpacklo_epi16)(even_lower, odd_lower), TVQ_MM(unpackhi_epi16)(even_lower, odd_lower),
      TVQ_MM(unpacklo_epi16)(even_upper, odd_upper), TVQ_MM(unpackhi_epi16)(even_upper, odd_upper)};
  const Bytes high = Broadcast(&group.factor[row / 2][scale]);
  const Bytes low = Broadcast(&group.factor[row / 2 + 1][scale]);
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const Ints upper = AddDot(Ints{}, high, four[v]);
    sums[v] = AddDot(sums[v], low, four[v]) + (upper << 8);
  }
}

// Puts sum[0..3], as AddFourRows leaves them, into the order of columns.
TVQ_VNNI_TARGET inline void Order(Bytes (&sum)[4]) {
#if TVQ_VNNI_BITS == 512
  // A transposition of 4 x 4 quarters of vectors. By `maskz` because g++ 12 warns of the plain
  // form's undefined vector.
  constexpr __mmask16 kAll = 0xffff;
  const Bytes a = _mm512_maskz_shuffle_i32x4(kAll, sum[0], sum[1], 0x44);
  const Bytes b = _mm512_maskz_shuffle_i32x4(kAll, sum[2], sum[3], 0x44);
  const Bytes c = _mm512_maskz_shuffle_i32x4(kAll, sum[0], sum[1], 0xee);
  const Bytes d = _mm512_maskz_shuffle_i32x4(kAll, sum[2], sum[3], 0xee);
  sum[0] = _mm512_maskz_shuffle_i32x4(kAll, a, b, 0x88);
  sum[1] = _mm512_maskz_shuffle_i32x4(kAll, a, b, 0xdd);
  sum[2] = _mm512_maskz_shuffle_i32x4(kAll, c, d, 0x88);
  sum[3] = _mm512_maskz_shuffle_i32x4(kAll, c, d, 0xdd);
#else
  const Bytes a = _mm256_permute2x128_si256(sum[0], sum[1], 0x20);
  const Bytes b = _mm256_permute2x128_si256(sum[2], sum[3], 0x20);
  const Bytes c = _mm256_permute2x128_si256(sum[0], sum[1], 0x31);
  const Bytes d = _mm256_permute2x128_si256(sum[2], sum[3], 0x31);
  sum[0] = a;
  sum[1] = b;
  sum[2] = c;
  sum[3] = d;
#endif
}

// out[i] += step * sum[i]; without kWhole only for the first `columns`, which may be none or more
// than a vector has.
template <bool kWhole>
TVQ_VNNI_TARGET inline void AddVector(Ints sum, float step, int64_t columns, float* out) {
  const Floats floats = __builtin_convertvector(sum, Floats);
  const Floats steps = TVQ_MM(set1_ps)(step);
  if constexpr (kWhole) {
    TVQ_MM(storeu_ps)(out, TVQ_MM(fmadd_ps)(floats, steps, TVQ_MM(loadu_ps)(out)));
    return;
  }
  const auto count = static_cast<int>(std::clamp<int64_t>(columns, 0, kVectorInts));
#if TVQ_VNNI_BITS == 512
  const auto mask = static_cast<__mmask16>((1U << count) - 1);
  const Floats old = _mm512_maskz_loadu_ps(mask, out);
  _mm512_mask_storeu_ps(out, mask, _mm512_fmadd_ps(floats, steps, old));
#else
  const __m256i mask =
      _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const Floats old = _mm256_maskload_ps(out, mask);
  _mm256_maskstore_ps(out, mask, _mm256_fmadd_ps(floats, steps, old));
#endif
}

template <bool kWhole>
TVQ_VNNI_TARGET inline void AddToOut(const CopyGroup& group, int64_t column, int64_t columns,
                                     const Ints* sums) {
  Bytes sum[4];
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) sum[v] = (Bytes)sums[v];
  Order(sum);
  const float step = group.step[column / kVqScaleColumns];
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    AddVector<kWhole>((Ints)sum[v], step, columns - v * kVectorInts,
                      group.out + column + v * kVectorInts);
  }
}

// Calls call<kWhole>(column, columns, sums) for each vector of columns. Columns that share a scale
// begin with a vector.
template <typename Call>
TVQ_VNNI_TARGET inline __attribute__((always_inline)) void ForVectors(int64_t columns, Ints* sums,
                                                                      const Call& call) {
  static_assert(kVqScaleColumns % kVectorBytes == 0);
  int64_t column = 0;
  for (; column + kVectorBytes <= columns; column += kVectorBytes, sums += 4) {
    call(std::true_type(), column, kVectorBytes, sums);
  }
  if (column < columns) call(std::false_type(), column, columns - column, sums);
}

// Adds four rows from their beginning to their end before the next four: so memory is read in its
// order, and what is prefetched meanwhile is little enough to stay in the L1 cache.
TVQ_VNNI_TARGET inline void AddGroup(const CopyGroup& group) {
  Ints sums[kCopyColumns / kVectorInts] = {};
  for (int64_t row = 0; row < group.rows; row += 4) {
    ForVectors(group.columns, sums,
               [&](auto whole, int64_t column, int64_t columns, Ints* to)
                   __attribute__((always_inline)) TVQ_VNNI_TARGET {
                     constexpr int64_t kLines = 4;
                     if (column % 64 == 0) group.fetch->Turn(kLines);
                     AddFourRows<decltype(whole)::value>(group, row, column, columns, to);
                   });
  }
  ForVectors(group.columns, sums,
             [&](auto whole, int64_t column, int64_t columns, Ints* from)
                 __attribute__((always_inline)) TVQ_VNNI_TARGET {
                   AddToOut<decltype(whole)::value>(group, column, columns, from);
                 });
}

}  // namespace tvq::TVQ_VNNI_NAMESPACE

#endif  // TVQ_KERNELS_CPU_VQ_ATTENTION_COPY_SUMS_VNNI_INL_H_
