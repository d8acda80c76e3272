// What the tiles of int8 and int4 weights by 16-bit multiplications share, for every instruction
// set that Highway knows except the one without vectors: the types of vectors, how many of them fit
// into registers, and the passes over rows and outputs.

// Per-target include guard.
#if defined(TVQ_KERNELS_CPU_LINEAR_WORDS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_LINEAR_WORDS_TILE_INL_H_
#undef TVQ_KERNELS_CPU_LINEAR_WORDS_TILE_INL_H_
#else
#define TVQ_KERNELS_CPU_LINEAR_WORDS_TILE_INL_H_
#endif

#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/linear/tile.h"

#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::CappedTag<int16_t, 2 * kPanelOutputs>;
using Sums = hn::RepartitionToWide<Words>;
using Fours = hn::RepartitionToWide<Sums>;
using Bytes = hn::Rebind<uint8_t, Words>;
constexpr int kOutputs = static_cast<int>(HWY_MIN(HWY_LANES(int16_t), 2 * kPanelOutputs) / 4);

// The number of accumulators. It leaves registers for the weights, a broadcast value and a product:
// of 32 registers; of 32 of which a sum takes two (InOrder); of 16.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr int kAccumulators = 24;
#elif HWY_TARGET == HWY_NEON
constexpr int kAccumulators = 12;
#else
constexpr int kAccumulators = 8;
#endif
constexpr int kMaxRows = kAccumulators == 24 ? 6 : 3;

// How many vectors of outputs lie beside each other in the accumulators of R rows; InOrder joins
// them in pairs.
constexpr int VectorsFor(int rows) {
  int vectors = 2;
  while (2 * rows * vectors <= kAccumulators && 2 * vectors * kOutputs <= kPairOutputs) {
    vectors *= 2;
  }
  return vectors;
}

// Four words of a row for each output of a vector.
HWY_INLINE hn::Vec<Words> BroadcastFour(const std::byte* x) {
  int64_t four;
  std::memcpy(&four, x, sizeof(four));
  return hn::BitCast(Words(), hn::Set(Fours(), four));
}

// Joins two vectors of outputs into one of sums, in the order of outputs. An output has two lanes
// of `a` or `b`, each with the products of two words. Where ReorderWidenMulAccumulate does not keep
// that order, `rest_of_a` and `rest_of_b` have half of the products.
HWY_INLINE hn::Vec<Sums> InOrder(hn::Vec<Sums> a, hn::Vec<Sums> rest_of_a, hn::Vec<Sums> b,
                                 hn::Vec<Sums> rest_of_b) {
  const Sums d;
  a = hn::RearrangeToOddPlusEven(a, rest_of_a);
  b = hn::RearrangeToOddPlusEven(b, rest_of_b);
  return hn::Add(hn::ConcatEven(d, b, a), hn::ConcatOdd(d, b, a));
}

// Adds all 32 outputs for R rows. Panels::Add<R, V> adds the products of R rows, from `row` on, and
// V vectors of outputs, from `output` on, to `sums` in as many turns as there are Lines(in).
template <typename Panels, int R, typename TileSums>
void AddOutputs(const TileInput& input, int64_t row, TileSums* sums) {
  constexpr int kVectors = VectorsFor(R);
  AheadFetch ahead(row == 0 ? input : TileInput(), Panels::Lines(input.in));
  for (int64_t o = 0; o < kPairOutputs; o += kVectors * kOutputs) {
    Panels::template Add<R, kVectors>(input, row, o, ahead, sums);
    ahead = AheadFetch(TileInput(), 0);  // prefetches only once
  }
}

template <typename Panels, typename TileSums>
void AddTile(const TileInput& input, TileSums* sums) {
  using Function = void (*)(const TileInput&, int64_t, TileSums*);
  static constexpr Function kByRows[] = {AddOutputs<Panels, 1, TileSums>,
                                         AddOutputs<Panels, 2, TileSums>,
                                         AddOutputs<Panels, 3, TileSums>,
                                         AddOutputs<Panels, HWY_MIN(4, kMaxRows), TileSums>,
                                         AddOutputs<Panels, HWY_MIN(5, kMaxRows), TileSums>,
                                         AddOutputs<Panels, kMaxRows, TileSums>};
  for (int64_t row = 0; row < input.row_count; row += kMaxRows) {
    kByRows[HWY_MIN(input.row_count - row, kMaxRows) - 1](input, row, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET != HWY_SCALAR
#endif  // per-target include guard
