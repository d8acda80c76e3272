// Rows before a linear and tiles after it.
#include <algorithm>

#include "kernels/cpu/linear/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/rows_highway.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
#include "kernels/cpu/fast_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

using Floats = hn::CappedTag<float, 16>;
using Words = hn::RebindToUnsigned<Floats>;
using Halves = hn::Rebind<uint16_t, Floats>;

// As ToBFloat16: nearest even; the result in the lower half of each word.
HWY_INLINE hn::Vec<Words> RoundToBFloat16(hn::Vec<Floats> v) {
  const Words words;
  const auto bits = hn::BitCast(words, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fff))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(words, 0x40));
  // Not Ne: Highway 1.0.3 compares ordered there, which is false for NaN.
  const auto nan = hn::RebindMask(words, hn::Not(hn::Eq(v, v)));
  return hn::IfThenElse(nan, quiet, rounded);
}

void PrepareRowImpl(const float* x, const float* times, int64_t in, RowFormat format, void* row) {
  const Floats d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < in; i += lanes) {
    const size_t count = static_cast<size_t>(in - i);
    auto v = LoadFirst(d, x + i, count);
    if (times != nullptr) v = hn::Mul(v, LoadFirst(d, times + i, count));
    if (format == RowFormat::kFloat32) {
      StoreFirst(v, d, static_cast<float*>(row) + i, count);
    } else if (format == RowFormat::kBFloat16AsFloat) {
      const auto rounded = hn::BitCast(d, hn::ShiftLeft<16>(RoundToBFloat16(v)));
      StoreFirst(rounded, d, static_cast<float*>(row) + i, count);
    } else {
      const Halves halves;
      StoreFirst(hn::TruncateTo(halves, RoundToBFloat16(v)), halves,
                 static_cast<uint16_t*>(row) + i, count);
    }
  }
  if (in % 2 != 0 && format == RowFormat::kBFloat16AsFloat) static_cast<float*>(row)[in] = 0;
  if (in % 2 != 0 && format == RowFormat::kBFloat16) static_cast<uint16_t*>(row)[in] = 0;
}

HWY_INLINE void StoreVector(const float* sums, size_t count, const float* scales, const float* bias,
                            const OutputColumns& out, float* y) {
  const Floats d;
  auto v = hn::LoadU(d, sums);
  if (scales != nullptr) v = hn::Mul(v, LoadFirst(d, scales, count));
  if (bias != nullptr) v = hn::Add(v, LoadFirst(d, bias, count));
  if (out.scale != 1) v = hn::Mul(v, hn::Set(d, out.scale));
  if (out.activation == Activation::kSilu) v = FastSilu(d, v);
  if (out.activation == Activation::kGelu) v = FastGelu(d, v);
  if (out.accumulate) v = hn::Add(LoadFirst(d, y, count), v);
  StoreFirst(v, d, y, count);
}

void StoreTileImpl(const float* sums, int64_t row, int64_t rows, int64_t column,
                   const float* scales, std::span<const OutputColumns> outputs) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Floats()));
  for (const OutputColumns& out : outputs) {
    const int64_t begin = std::max(column, out.first);
    const int64_t end = std::min(column + kPairOutputs, out.first + out.count);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = begin; c < end; c += lanes) {
        const int64_t at = c - out.first;
        StoreVector(sums + r * kPairOutputs + (c - column), static_cast<size_t>(end - c),
                    scales == nullptr ? nullptr : scales + c,
                    out.bias == nullptr ? nullptr : out.bias + at, out,
                    out.y + (row + r) * out.stride + at);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(PrepareRowImpl);
HWY_EXPORT(StoreTileImpl);

}  // namespace

void PrepareRow(const float* x, const float* times, int64_t in, RowFormat format, void* row) {
  switch (format) {
    case RowFormat::kFixedPointWords:
      return PrepareFixedPoint(x, times, in, FixedPointForm::kWords, row);
    case RowFormat::kFixedPointBytes:
      return PrepareFixedPoint(x, times, in, FixedPointForm::kBytes, row);
    case RowFormat::kGroupedWords:
      return PrepareFixedPoint(x, times, in, FixedPointForm::kGroupedWords, row);
    case RowFormat::kGroupedBytes:
      return PrepareFixedPoint(x, times, in, FixedPointForm::kGroupedBytes, row);
    default:
      return HWY_DYNAMIC_DISPATCH(PrepareRowImpl)(x, times, in, format, row);
  }
}

void StoreTile(const float* sums, int64_t row, int64_t rows, int64_t column, const float* scales,
               std::span<const OutputColumns> outputs) {
  HWY_DYNAMIC_DISPATCH(StoreTileImpl)(sums, row, rows, column, scales, outputs);
}

}  // namespace tvq
#endif  // HWY_ONCE
