// Stores the tiles of a linear.
#include <algorithm>

#include "kernels/cpu/linear/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/outputs_highway.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
#include "kernels/cpu/fast_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

using Floats = hn::CappedTag<float, 16>;

HWY_INLINE void StoreVector(const float* sums, size_t count, const float* scales, const float* bias,
                            const OutputColumns& out, float* y) {
  const Floats d;
  auto v = hn::LoadU(d, sums);
  if (scales != nullptr) v = hn::Mul(v, LoadFirst(d, scales, count));
  if (bias != nullptr) v = hn::Add(v, LoadFirst(d, bias, count));
  if (out.scale != 1) v = hn::Mul(v, hn::Set(d, out.scale));
  v = Activate(d, out.activation, v);
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

HWY_EXPORT(StoreTileImpl);

}  // namespace

void StoreTile(const float* sums, int64_t row, int64_t rows, int64_t column, const float* scales,
               std::span<const OutputColumns> outputs) {
  HWY_DYNAMIC_DISPATCH(StoreTileImpl)(sums, row, rows, column, scales, outputs);
}

}  // namespace tvq
#endif  // HWY_ONCE
