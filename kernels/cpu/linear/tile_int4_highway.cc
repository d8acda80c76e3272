// The tile product of int4 weights and fixed-point rows by 16-bit multiplications, for every
// instruction set that Highway knows. It works like that of int8 weights (tile_int8_highway.cc),
// but one group of `in` after the other.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/linear/fixed_point.h"
#include "kernels/cpu/linear/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/tile_int4_highway.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
#include "kernels/cpu/linear/words_tile-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// Where the bytes of an output lie in the lines of a group.
constexpr int64_t BytesOf(int64_t output) {
  return kLineBytes * (1 + output / kPanelOutputs * kInt4PanelLines) + output % kPanelOutputs * 4;
}

#if HWY_TARGET == HWY_SCALAR

void AddRow(const TileInput& input, int64_t row, float* sums) {
  const std::byte* x = static_cast<const std::byte*>(input.rows) + row * input.row_bytes;
  x += sizeof(FixedPointHead);
  const std::byte* offset = x + 2 * GroupedValues(input.in);
  const auto* w = static_cast<const uint8_t*>(input.panels);
  for (int64_t g = 0; g < Int4Groups(input.in); ++g, w += kInt4PairLines * kLineBytes) {
    for (int64_t o = 0; o < kPairOutputs; ++o) {
      int32_t sum;
      std::memcpy(&sum, offset + g * static_cast<int64_t>(sizeof(sum)), sizeof(sum));
      for (int64_t i = 0; i < kInt4Group; ++i) {
        int16_t q;
        std::memcpy(&q, x + (g * kInt4Group + i) * 2, sizeof(q));
        const uint8_t two = w[BytesOf(o) + i / 8 * kLineBytes + i % 4];
        sum += (i % 8 < 4 ? two & 15 : two >> 4) * q;
      }
      uint16_t half;
      std::memcpy(&half, w + o * 2, sizeof(half));
      const uint32_t bits = static_cast<uint32_t>(half) << 16;
      float scale;
      std::memcpy(&scale, &bits, sizeof(scale));
      sums[row * kPairOutputs + o] += static_cast<float>(sum) * scale;
    }
  }
}

void AddTile(const TileInput& input, float* sums) {
  for (int64_t row = 0; row < input.row_count; ++row) AddRow(input, row, sums);
}

#else

using Floats = hn::RebindToFloat<Sums>;

HWY_INLINE hn::Vec<Floats> LoadScales(const uint8_t* scales) {
  const hn::RebindToUnsigned<Sums> words;
  const hn::Rebind<uint16_t, Sums> halves;
  const auto loaded = hn::LoadU(halves, reinterpret_cast<const uint16_t*>(scales));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(words, loaded)));
}

// Adds the groups of R rows and V vectors of outputs from `output` on to sums. x: the first row's
// values.
template <int R, int V>
HWY_NOINLINE void AddGroups(const TileInput& input, const std::byte* x, int64_t output,
                            AheadFetch ahead, float* sums) {
  const Sums d;
  const std::byte* offset = x + 2 * GroupedValues(input.in);
  const auto* w = static_cast<const uint8_t*>(input.panels);
  for (int64_t g = 0; g < Int4Groups(input.in); ++g) {
    hn::Vec<Sums> acc[R][V], rest[R][V];
    HWY_UNROLL(8)
    for (int v = 0; v < V; ++v) {
      HWY_UNROLL(8)
      for (int r = 0; r < R; ++r) acc[r][v] = rest[r][v] = hn::Zero(d);
    }
    for (int64_t line = 0; line < kInt4PanelLines; ++line) {
      ahead.Turn();
      for (const bool upper : {false, true}) {
        hn::Vec<Words> weights[V];
        HWY_UNROLL(8)
        for (int v = 0; v < V; ++v) {
          const uint8_t* from = w + BytesOf(output + v * kOutputs) + line * kLineBytes;
          const auto two = hn::PromoteTo(Words(), hn::LoadU(Bytes(), from));
          weights[v] = upper ? hn::ShiftRight<4>(two) : hn::And(two, hn::Set(Words(), int16_t{15}));
        }
        HWY_UNROLL(8)
        for (int r = 0; r < R; ++r) {
          const auto q = BroadcastFour(x + r * input.row_bytes);
          HWY_UNROLL(8)
          for (int v = 0; v < V; ++v) {
            acc[r][v] = hn::ReorderWidenMulAccumulate(d, weights[v], q, acc[r][v], rest[r][v]);
          }
        }
        x += sizeof(int64_t);
      }
    }
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) {
      int32_t too_much;
      std::memcpy(&too_much, offset + r * input.row_bytes, sizeof(too_much));
      HWY_UNROLL(8)
      for (int v = 0; v < V; v += 2) {
        const auto sum = hn::Add(InOrder(acc[r][v], rest[r][v], acc[r][v + 1], rest[r][v + 1]),
                                 hn::Set(d, too_much));
        const int64_t at = output + v * kOutputs;
        const auto scaled = hn::Mul(hn::ConvertTo(Floats(), sum), LoadScales(w + 2 * at));
        float* to = sums + r * kPairOutputs + at;
        hn::StoreU(hn::Add(hn::LoadU(Floats(), to), scaled), Floats(), to);
      }
    }
    w += kInt4PairLines * kLineBytes;
    offset += sizeof(int32_t);
  }
}

struct Int4Panels {
  static int64_t Lines(int64_t in) { return Int4Groups(in) * kInt4PanelLines; }

  template <int R, int V>
  static void Add(const TileInput& input, int64_t row, int64_t output, const AheadFetch& ahead,
                  float* sums) {
    const std::byte* x = static_cast<const std::byte*>(input.rows) + row * input.row_bytes;
    AddGroups<R, V>(input, x + sizeof(FixedPointHead), output, ahead, sums + row * kPairOutputs);
  }
};

void AddTile(const TileInput& input, float* sums) { AddTile<Int4Panels>(input, sums); }

#endif  // HWY_TARGET == HWY_SCALAR

void SumTileInt4(const TileInput& input, float* sums) {
  std::fill_n(sums, input.row_count * kPairOutputs, 0.0F);
  AddTile(input, sums);
  for (int64_t r = 0; r < input.row_count; ++r) {
    FixedPointHead head;
    std::memcpy(&head, static_cast<const std::byte*>(input.rows) + r * input.row_bytes,
                sizeof(head));
    for (int64_t o = 0; o < kPairOutputs; ++o) sums[r * kPairOutputs + o] *= head.step;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(SumTileInt4);

}  // namespace

void TileInt4(const TileInput& input, float* sums) {
  HWY_DYNAMIC_DISPATCH(SumTileInt4)(input, sums);
}

}  // namespace tvq
#endif  // HWY_ONCE
