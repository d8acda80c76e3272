#include <algorithm>
#include <cstring>

#include "kernels/cpu/linear/split_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/split_sums_highway.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

FixedPointHead HeadOf(const TileInput& input, int64_t row) {
  FixedPointHead head;
  std::memcpy(&head, static_cast<const std::byte*>(input.rows) + row * input.row_bytes,
              sizeof(head));
  return head;
}

void BeginSumsImpl(const TileInput& input, SplitSums& split) {
  for (int64_t r = 0; r < input.row_count; ++r) {
    const FixedPointHead head = HeadOf(input, r);
    std::fill_n(split.high + r * kPairOutputs, kPairOutputs, head.high_offset);
    std::fill_n(split.low + r * kPairOutputs, kPairOutputs, head.low_offset);
  }
}

void ScaleSumsImpl(const TileInput& input, const SplitSums& split, float* sums) {
  using Floats = hn::CappedTag<float, kPanelOutputs>;
  const Floats d;
  const hn::RebindToSigned<Floats> ints;
  for (int64_t r = 0; r < input.row_count; ++r) {
    const auto step = hn::Set(d, HeadOf(input, r).step);
    for (int64_t at = r * kPairOutputs; at < (r + 1) * kPairOutputs;
         at += static_cast<int64_t>(hn::Lanes(d))) {
      const auto low = hn::Load(ints, split.low + at);
      const auto high = hn::Add(hn::Load(ints, split.high + at), hn::ShiftRight<8>(low));
      const auto sum = hn::Add(hn::Mul(hn::ConvertTo(d, high), hn::Set(d, 256)),
                               hn::ConvertTo(d, hn::And(low, hn::Set(ints, 255))));
      hn::StoreU(hn::Mul(sum, step), d, sums + at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(BeginSumsImpl);
HWY_EXPORT(ScaleSumsImpl);

}  // namespace

void BeginSums(const TileInput& input, SplitSums& split) {
  HWY_DYNAMIC_DISPATCH(BeginSumsImpl)(input, split);
}

void ScaleSums(const TileInput& input, const SplitSums& split, float* sums) {
  HWY_DYNAMIC_DISPATCH(ScaleSumsImpl)(input, split, sums);
}

}  // namespace tvq
#endif  // HWY_ONCE
