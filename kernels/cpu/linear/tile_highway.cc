// The tile product by multiply-add, for every instruction set that Highway knows.
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

// Accumulators that leave registers for the weights and a broadcast value.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
constexpr int kAccumulators = 24;
#else
constexpr int kAccumulators = 12;
#endif
constexpr int kMaxRows = kAccumulators / 4;

// Vectors of outputs beside each other in the accumulators of R rows.
constexpr int VectorsFor(int rows) {
  int vectors = 2;
  while (2 * rows * 2 * vectors <= kAccumulators && 2 * vectors * kLanes <= kPairOutputs) {
    vectors *= 2;
  }
  return vectors;
}

// The weights of one line for `kLanes` outputs, as multiplicands of one or two steps along `in`.
struct Float32Weights {
  using Element = float;
  static constexpr int kSteps = 1;
  static constexpr int kStride = 1;  // elements per output
  hn::Vec<Floats> step[1];

  HWY_INLINE explicit Float32Weights(const float* line) { step[0] = hn::Load(Floats(), line); }
};

struct BFloat16Weights {
  using Element = uint16_t;
  static constexpr int kSteps = 2;
  static constexpr int kStride = 2;
  hn::Vec<Floats> step[2];

  HWY_INLINE explicit BFloat16Weights(const uint16_t* line) {
    const Words words;
    const auto pair = hn::Load(words, reinterpret_cast<const uint32_t*>(line));
    step[0] = hn::BitCast(Floats(), hn::ShiftLeft<16>(pair));
    step[1] = hn::BitCast(Floats(), hn::And(pair, hn::Set(words, 0xffff0000U)));
  }
};

// Adds the products of lines [0, lines) for R rows and V vectors of outputs, and stores their sums.
// vectors[v] points into line 0. Step k goes to partial sum k % 2.
template <class Weights, int R, int V>
HWY_NOINLINE void SumLines(const typename Weights::Element* const* vectors, int64_t lines,
                           const float* x, int64_t stride, float* sums) {
  constexpr int kLine = static_cast<int>(kPanelOutputs) * Weights::kStride;
  constexpr int kSteps = Weights::kSteps;
  const Floats d;
  hn::Vec<Floats> acc[2][R][V];
  for (int v = 0; v < V; ++v) {
    for (int r = 0; r < R; ++r) acc[0][r][v] = acc[1][r][v] = hn::Zero(d);
  }
  const typename Weights::Element* w[V];
  for (int v = 0; v < V; ++v) w[v] = vectors[v];
  // Two steps a turn: two lines of float32, one of bfloat16.
  int64_t line = 0;
  for (; line + 2 / kSteps <= lines; line += 2 / kSteps) {
    HWY_UNROLL(8)
    for (int v = 0; v < V; ++v) {
      const Weights first(w[v]);
      const Weights second(w[v] + (2 / kSteps - 1) * kLine);
      HWY_UNROLL(8)
      for (int r = 0; r < R; ++r) {
        acc[0][r][v] = hn::MulAdd(hn::Set(d, x[r * stride]), first.step[0], acc[0][r][v]);
        acc[1][r][v] =
            hn::MulAdd(hn::Set(d, x[r * stride + 1]), second.step[kSteps - 1], acc[1][r][v]);
      }
      w[v] += 2 / kSteps * kLine;
    }
    x += 2;
  }
  if (line < lines) {  // an odd `in` of float32
    for (int v = 0; v < V; ++v) {
      const Weights last(w[v]);
      for (int r = 0; r < R; ++r) {
        acc[0][r][v] = hn::MulAdd(hn::Set(d, x[r * stride]), last.step[0], acc[0][r][v]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
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
  const int64_t stride = input.row_bytes / static_cast<int64_t>(sizeof(float));
  const float* x = static_cast<const float*>(input.rows) + row * stride;
  for (int64_t o = 0; o < kPairOutputs; o += kVectors * kLanes) {
    const Element* vectors[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const int64_t output = o + v * kLanes;
      vectors[v] =
          panels + (output / kPanelOutputs * lines * kPanelOutputs + output % kPanelOutputs) *
                       Weights::kStride;
    }
    SumLines<Weights, R, kVectors>(vectors, lines, x, stride, sums + row * kPairOutputs + o);
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

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(SumTileFloat32);
HWY_EXPORT(SumTileBFloat16);

}  // namespace

void TileFloat32(const TileInput& input, float* sums) {
  HWY_DYNAMIC_DISPATCH(SumTileFloat32)(input, sums);
}

void TileBFloat16(const TileInput& input, float* sums) {
  HWY_DYNAMIC_DISPATCH(SumTileBFloat16)(input, sums);
}

}  // namespace tvq
#endif  // HWY_ONCE
