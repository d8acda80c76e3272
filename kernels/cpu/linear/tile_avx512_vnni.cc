// The tile product of int8 weights and fixed-point rows by VPDPBUSD, which multiplies four unsigned
// bytes with four signed ones and adds the products to an int32: once for the upper bytes of x and
// once for the lower ones.
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/linear/fixed_point.h"
#include "kernels/cpu/linear/tile.h"

#if defined(__x86_64__)

#include "kernels/cpu/avx512_vnni.h"

namespace tvq {
namespace {

using Ints = VnniInts;

// (256 high + low) step, as fixed_point.h has it, of sums that lack the head's offsets. By `maskz`
// because g++ 12 warns of the plain forms' undefined vector.
TVQ_VNNI_TARGET inline __m512 Scaled(Ints high, Ints low, const FixedPointHead& head) {
  constexpr __mmask16 kAll = 0xffff;
  low += head.low_offset;
  const Ints carried = high + head.high_offset + (low >> 8);
  const __m512 upper =
      _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(kAll, (__m512i)carried), _mm512_set1_ps(256));
  const __m512 sum = _mm512_add_ps(upper, _mm512_maskz_cvtepi32_ps(kAll, (__m512i)(low & 255)));
  return _mm512_mul_ps(sum, _mm512_set1_ps(head.step));
}

// R rows by two panels.
template <int R>
TVQ_VNNI_TARGET void SumBytes(const TileInput& input, float* sums) {
  const int64_t lines = PanelLines(input.in, DType::kInt8);
  const char* w0 = static_cast<const char*>(input.panels);
  const char* w1 = w0 + lines * kLineBytes;
  const char* rows = static_cast<const char*>(input.rows);
  const int64_t stride = input.row_bytes;
  Ints high[R][2], low[R][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    high[r][0] = high[r][1] = low[r][0] = low[r][1] = Ints{};
  }
  const char* x_high = rows + sizeof(FixedPointHead);
  const char* x_low = x_high + FixedPointValues(input.in);
  AheadFetch ahead(input, lines);
  for (int64_t line = 0; line < lines; ++line) {
    ahead.Turn();
    const __m512i a = _mm512_load_si512(w0);
    const __m512i b = _mm512_load_si512(w1);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const __m512i h = BroadcastFour(x_high + r * stride);
      high[r][0] = AddDot(high[r][0], a, h);
      high[r][1] = AddDot(high[r][1], b, h);
      const __m512i l = BroadcastFour(x_low + r * stride);
      low[r][0] = AddDot(low[r][0], a, l);
      low[r][1] = AddDot(low[r][1], b, l);
    }
    w0 += kLineBytes;
    w1 += kLineBytes;
    x_high += 4;
    x_low += 4;
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    FixedPointHead head;
    std::memcpy(&head, rows + r * stride, sizeof(head));
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p) {
      _mm512_storeu_ps(sums + r * kPairOutputs + p * kPanelOutputs,
                       Scaled(high[r][p], low[r][p], head));
    }
  }
}

}  // namespace

void TileInt8Dot(const TileInput& input, float* sums) {
  static constexpr TileFunction kByRows[kTileRows] = {SumBytes<1>, SumBytes<2>, SumBytes<3>,
                                                      SumBytes<4>, SumBytes<5>, SumBytes<6>};
  kByRows[input.row_count - 1](input, sums);
}

}  // namespace tvq

#else

namespace tvq {

void TileInt8Dot(const TileInput&, float*) { std::abort(); }

}  // namespace tvq

#endif
