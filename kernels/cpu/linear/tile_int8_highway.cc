// The tile product of int8 weights and fixed-point rows by 16-bit multiplications, for every
// instruction set that Highway knows.
//
// A line of the weight (packed_weight.h) has four steps of `in` for each output, one output after
// another. It is widened to words of 16 bits. Each word is multiplied by the word of x for its
// step. Products of neighbours are added, for 256 steps at a time: that fits into 32 bits.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/linear/fixed_point.h"
#include "kernels/cpu/linear/split_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/tile_int8_highway.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
#include "kernels/cpu/linear/words_tile-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void AddLines(const TileInput& input, int64_t row, SplitSums& sums) {
  const int64_t lines = PanelLines(input.in, DType::kInt8);
  const std::byte* x = static_cast<const std::byte*>(input.rows) + row * input.row_bytes;
  for (int64_t o = 0; o < kPairOutputs; ++o) {
    const auto* w = static_cast<const uint8_t*>(input.panels) + o * 4;
    int64_t sum = 0;
    for (int64_t i = 0; i < 4 * lines; ++i) {
      int16_t q;
      std::memcpy(&q, x + sizeof(FixedPointHead) + i * 2, sizeof(q));
      sum += int64_t{w[i / 4 * kPairLineBytes + i % 4]} * q;
    }
    sums.high[row * kPairOutputs + o] += static_cast<int32_t>(sum >> 8);
    sums.low[row * kPairOutputs + o] += static_cast<int32_t>(sum & 255);
  }
}

void AddTile(const TileInput& input, SplitSums& sums) {
  for (int64_t row = 0; row < input.row_count; ++row) AddLines(input, row, sums);
}

#else

// 255 times 32639, 256 times, is still below 2^31.
constexpr int64_t kBlockLines = 256 / 4;

// Adds the products of R rows and V vectors of outputs to high and low; vectors[v] points into
// line 0.
template <int R, int V>
HWY_NOINLINE void AddLines(const uint8_t* const* vectors, int64_t lines, const std::byte* x,
                           int64_t row_bytes, AheadFetch ahead, int32_t* high, int32_t* low) {
  const Sums d;
  const uint8_t* w[V];
  HWY_UNROLL(8)
  for (int v = 0; v < V; ++v) w[v] = vectors[v];
  for (int64_t first = 0; first < lines; first += kBlockLines) {
    hn::Vec<Sums> acc[R][V], rest[R][V];
    HWY_UNROLL(8)
    for (int v = 0; v < V; ++v) {
      HWY_UNROLL(8)
      for (int r = 0; r < R; ++r) acc[r][v] = rest[r][v] = hn::Zero(d);
    }
    for (int64_t line = first; line < std::min(lines, first + kBlockLines); ++line) {
      ahead.Turn();
      hn::Vec<Words> weights[V];
      HWY_UNROLL(8)
      for (int v = 0; v < V; ++v) {
        weights[v] = hn::PromoteTo(Words(), hn::LoadU(Bytes(), w[v]));
        w[v] += kPairLineBytes;
      }
      HWY_UNROLL(8)
      for (int r = 0; r < R; ++r) {
        const auto q = BroadcastFour(x + r * row_bytes);
        HWY_UNROLL(8)
        for (int v = 0; v < V; ++v) {
          acc[r][v] = hn::ReorderWidenMulAccumulate(d, weights[v], q, acc[r][v], rest[r][v]);
        }
      }
      x += sizeof(int64_t);
    }
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) {
      HWY_UNROLL(8)
      for (int v = 0; v < V; v += 2) {
        const auto sum = InOrder(acc[r][v], rest[r][v], acc[r][v + 1], rest[r][v + 1]);
        int32_t* to_high = high + r * kPairOutputs + v * kOutputs;
        int32_t* to_low = low + r * kPairOutputs + v * kOutputs;
        hn::StoreU(hn::Add(hn::LoadU(d, to_high), hn::ShiftRight<8>(sum)), d, to_high);
        hn::StoreU(hn::Add(hn::LoadU(d, to_low), hn::And(sum, hn::Set(d, 255))), d, to_low);
      }
    }
  }
}

struct Int8Panels {
  static int64_t Lines(int64_t in) { return PanelLines(in, DType::kInt8); }

  template <int R, int V>
  static void Add(const TileInput& input, int64_t row, int64_t output, const AheadFetch& ahead,
                  SplitSums* sums) {
    const auto* panels = static_cast<const uint8_t*>(input.panels);
    const std::byte* x = static_cast<const std::byte*>(input.rows) + row * input.row_bytes;
    const uint8_t* vectors[V];
    for (int v = 0; v < V; ++v) vectors[v] = panels + (output + v * kOutputs) * 4;
    const int64_t at = row * kPairOutputs + output;
    AddLines<R, V>(vectors, Lines(input.in), x + sizeof(FixedPointHead), input.row_bytes, ahead,
                   sums->high + at, sums->low + at);
  }
};

void AddTile(const TileInput& input, SplitSums& sums) { AddTile<Int8Panels>(input, &sums); }

#endif  // HWY_TARGET == HWY_SCALAR

void SumTileInt8(const TileInput& input, float* sums) {
  SplitSums split;
  BeginSums(input, split);
  AddTile(input, split);
  ScaleSums(input, split, sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(SumTileInt8);

}  // namespace

void TileInt8(const TileInput& input, float* sums) {
  HWY_DYNAMIC_DISPATCH(SumTileInt8)(input, sums);
}

}  // namespace tvq
#endif  // HWY_ONCE
