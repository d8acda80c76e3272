// The tile product by multiply-add, for every instruction set that Highway knows.
#include <cstring>

#include "kernels/cpu/linear/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/tile_highway.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kPanelOutputs>;
using Words = hn::CappedTag<uint32_t, kPanelOutputs>;
constexpr int kLanes =
    static_cast<int>(HWY_LANES(float) < kPanelOutputs ? HWY_LANES(float) : kPanelOutputs);

// The number of accumulators. It leaves registers for the weights and a broadcast value.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
constexpr int kAccumulators = 24;
#else
constexpr int kAccumulators = 12;
#endif
constexpr int kMaxRows = kAccumulators / 4;

// How many vectors of outputs lie beside each other in the accumulators of R rows.
constexpr int VectorsFor(int rows) {
  int vectors = 2;
  while (2 * rows * 2 * vectors <= kAccumulators && 2 * vectors * kLanes <= kPairOutputs) {
    vectors *= 2;
  }
  return vectors;
}

// Multiplicands of even (0) and odd (1) steps along `in` for kLanes outputs.
struct Float32Weights {
  using Element = float;
  static constexpr int kPerOutput = 1;     // elements of one output in a line
  static constexpr int kLinesPerTurn = 2;  // a turn is two steps

  static HWY_INLINE hn::Vec<Floats> Step(const float* line, int step) {
    return hn::Load(Floats(), line + step * kPairOutputs);
  }
};

struct BFloat16Weights {
  using Element = uint16_t;
  static constexpr int kPerOutput = 2;
  static constexpr int kLinesPerTurn = 1;

  static HWY_INLINE hn::Vec<Floats> Step(const uint16_t* line, int step) {
    const Words words;
    const auto pair = hn::Load(words, reinterpret_cast<const uint32_t*>(line));
    return hn::BitCast(
        Floats(), step == 0 ? hn::ShiftLeft<16>(pair) : hn::And(pair, hn::Set(words, 0xffff0000U)));
  }
};

// sums[r][v] = the dot products over `lines` lines, for R rows and V vectors of outputs. vectors[v]
// points into line 0. `acc` is indexed by constants only, so that it stays in registers.
template <class Weights, int R, int V>
HWY_NOINLINE void SumLines(const typename Weights::Element* const* vectors, int64_t lines,
                           const std::byte* x, int64_t row_bytes, AheadFetch ahead, float* sums) {
  constexpr int kTurn = Weights::kLinesPerTurn;
  const Floats d;
  hn::Vec<Floats> acc[2][R][V];
  const typename Weights::Element* w[V];
  HWY_UNROLL(8)
  for (int v = 0; v < V; ++v) {
    w[v] = vectors[v];
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) acc[0][r][v] = acc[1][r][v] = hn::Zero(d);
  }
  const auto add_step = [&](int step) HWY_ATTR {
    hn::Vec<Floats> weights[V];
    HWY_UNROLL(8)
    for (int v = 0; v < V; ++v) weights[v] = Weights::Step(w[v], step);
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) {
      float value;
      std::memcpy(&value, x + r * row_bytes + step * 4, sizeof(value));
      const auto values = hn::Set(d, value);
      HWY_UNROLL(8)
      for (int v = 0; v < V; ++v) {
        acc[step][r][v] = hn::MulAdd(values, weights[v], acc[step][r][v]);
      }
    }
  };
  for (int64_t line = 0; line + kTurn <= lines; line += kTurn) {
    ahead.Turn();
    add_step(0);
    add_step(1);
    HWY_UNROLL(8)
    for (int v = 0; v < V; ++v) w[v] += kPairOutputs * Weights::kPerOutput * kTurn;
    x += 2 * sizeof(float);
  }
  if (lines % kTurn != 0) add_step(0);  // an odd `in` of float32
  HWY_UNROLL(8)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(8)
    for (int v = 0; v < V; ++v) {
      hn::StoreU(hn::Add(acc[0][r][v], acc[1][r][v]), d, sums + r * kPairOutputs + v * kLanes);
    }
  }
}

// All 32 outputs for R rows.
template <class Weights, int R>
void SumOutputs(const TileInput& input, DType dtype, int64_t row, float* sums) {
  using Element = typename Weights::Element;
  constexpr int kVectors = VectorsFor(R);
  const int64_t lines = PanelLines(input.in, dtype);
  const auto* panels = static_cast<const Element*>(input.panels);
  const std::byte* x = static_cast<const std::byte*>(input.rows) + row * input.row_bytes;
  AheadFetch ahead(row == 0 ? input : TileInput(), lines / Weights::kLinesPerTurn);
  for (int64_t o = 0; o < kPairOutputs; o += kVectors * kLanes) {
    const Element* vectors[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      vectors[v] = panels + (o + v * kLanes) * Weights::kPerOutput;
    }
    SumLines<Weights, R, kVectors>(vectors, lines, x, input.row_bytes, ahead,
                                   sums + row * kPairOutputs + o);
    ahead = AheadFetch(TileInput(), 0);  // prefetches only once
  }
}

template <class Weights>
void SumTile(const TileInput& input, DType dtype, float* sums) {
  for (int64_t row = 0; row < input.row_count; row += kMaxRows) {
    switch (HWY_MIN(input.row_count - row, kMaxRows)) {
      case 1:
        SumOutputs<Weights, 1>(input, dtype, row, sums);
        break;
      case 2:
        SumOutputs<Weights, 2>(input, dtype, row, sums);
        break;
      case 3:
        SumOutputs<Weights, 3>(input, dtype, row, sums);
        break;
      case 4:
        SumOutputs<Weights, HWY_MIN(4, kMaxRows)>(input, dtype, row, sums);
        break;
      case 5:
        SumOutputs<Weights, HWY_MIN(5, kMaxRows)>(input, dtype, row, sums);
        break;
      default:
        SumOutputs<Weights, kMaxRows>(input, dtype, row, sums);
        break;
    }
  }
}

void SumTileFloat32(const TileInput& input, float* sums) {
  SumTile<Float32Weights>(input, DType::kFloat32, sums);
}

void SumTileBFloat16(const TileInput& input, float* sums) {
  SumTile<BFloat16Weights>(input, DType::kBFloat16, sums);
}

void WidenPairImpl(const void* panels, int64_t in, float* wide) {
  using Weights = BFloat16Weights;
  const auto* line = static_cast<const uint16_t*>(panels);
  for (int64_t i = 0; i < PanelLines(in, DType::kBFloat16); ++i) {
    for (int step = 0; step < 2; ++step, wide += kPairOutputs) {
      for (int64_t o = 0; o < kPairOutputs; o += kLanes) {
        hn::Store(Weights::Step(line + o * Weights::kPerOutput, step), Floats(), wide + o);
      }
    }
    line += kPairOutputs * Weights::kPerOutput;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(SumTileFloat32);
HWY_EXPORT(SumTileBFloat16);
HWY_EXPORT(WidenPairImpl);

}  // namespace

void TileFloat32(const TileInput& input, float* sums) {
  HWY_DYNAMIC_DISPATCH(SumTileFloat32)(input, sums);
}

void TileBFloat16(const TileInput& input, float* sums) {
  HWY_DYNAMIC_DISPATCH(SumTileBFloat16)(input, sums);
}

void WidenPair(const void* panels, int64_t in, float* wide) {
  HWY_DYNAMIC_DISPATCH(WidenPairImpl)(panels, in, wide);
}

}  // namespace tvq
#endif  // HWY_ONCE
