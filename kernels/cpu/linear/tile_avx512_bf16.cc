// The tile product by VDPBF16PS, which multiplies pairs of bfloat16 and adds both products to a
// float32. It treats subnormal numbers as zero.
#include <cstdlib>

#include "kernels/cpu/linear/tile.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TVQ_BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace tvq {
namespace {

// R rows by two panels: acc[parity of the pair][row][panel].
template <int R>
TVQ_BF16_TARGET void SumPairs(const TileInput& input, float* sums) {
  const int64_t pairs = PanelLines(input.in, DType::kBFloat16);
  const char* w = static_cast<const char*>(input.panels);
  const char* x = static_cast<const char*>(input.rows);
  const int64_t stride = input.row_bytes;
  __m512 acc[2][R][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    acc[0][r][0] = acc[0][r][1] = acc[1][r][0] = acc[1][r][1] = _mm512_setzero_ps();
  }
  const auto step = [&](int parity) __attribute__((always_inline)) TVQ_BF16_TARGET {
    const __m512bh a = (__m512bh)_mm512_load_si512(w + parity * kPairLineBytes);
    const __m512bh b = (__m512bh)_mm512_load_si512(w + parity * kPairLineBytes + kLineBytes);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      int pair;
      __builtin_memcpy(&pair, x + r * stride + parity * 4, sizeof(pair));
      const __m512bh v = (__m512bh)_mm512_set1_epi32(pair);
      acc[parity][r][0] = _mm512_dpbf16_ps(acc[parity][r][0], a, v);
      acc[parity][r][1] = _mm512_dpbf16_ps(acc[parity][r][1], b, v);
    }
  };
  AheadFetch ahead(input, pairs / 2);
  for (int64_t i = 0; i + 2 <= pairs; i += 2) {
    ahead.Turn();
    step(0);
    step(1);
    w += 2 * kPairLineBytes;
    x += 8;
  }
  if (pairs % 2 != 0) step(0);
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < 2; ++p) {
      _mm512_storeu_ps(sums + r * kPairOutputs + p * kPanelOutputs,
                       _mm512_add_ps(acc[0][r][p], acc[1][r][p]));
    }
  }
}

}  // namespace

void TileBFloat16Dot(const TileInput& input, float* sums) {
  static constexpr TileFunction kByRows[kTileRows] = {SumPairs<1>, SumPairs<2>, SumPairs<3>,
                                                      SumPairs<4>, SumPairs<5>, SumPairs<6>};
  kByRows[input.row_count - 1](input, sums);
}

}  // namespace tvq

#else

namespace tvq {

void TileBFloat16Dot(const TileInput&, float*) { std::abort(); }

}  // namespace tvq

#endif
