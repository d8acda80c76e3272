// Each lane is a group. So the eight sums of errors in int4.cc are eight vectors here, and nothing
// is added or compared across lanes.
#include <algorithm>
#include <limits>

#include "kernels/cpu/linear/packed_weight.h"
#include "kernels/cpu/linear/quantize_groups.h"
#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/int4.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/quantize_groups_highway.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
constexpr int64_t kLanes = HWY_MIN(HWY_LANES(float), 16);
constexpr int64_t kSums = 8;

// As many groups as a vector has lanes, value by value. A group's scale has the opposite sign of
// its largest value. So q is from -8 to 0 for values with the sign of the largest, and from 0 to 7
// for the others.
struct GroupLanes {
  alignas(64) float magnitude[kInt4Group * kLanes];
  alignas(64) float most[kInt4Group * kLanes];  // of |q|
};

// Loads groups from `values` on; the lanes from `groups` on get the last group. Returns the first
// value of the largest magnitude of each group.
HWY_INLINE hn::Vec<Floats> LoadGroups(const float* values, int64_t groups, GroupLanes& lanes) {
  const Floats d;
  const Ints di;
  const auto last = hn::Set(di, static_cast<int32_t>(groups - 1));
  const auto start = hn::Mul(hn::Min(hn::Iota(di, 0), last), hn::Set(di, int32_t{kInt4Group}));
  alignas(64) float value[kInt4Group * kLanes];
  auto largest = hn::Zero(d);
  for (int64_t i = 0; i < kInt4Group; ++i) {
    const auto v = hn::GatherIndex(d, values + i, start);
    hn::Store(v, d, value + i * kLanes);
    largest = hn::IfThenElse(hn::Gt(hn::Abs(v), hn::Abs(largest)), v, largest);
  }
  for (int64_t i = 0; i < kInt4Group; ++i) {
    const auto v = hn::Load(d, value + i * kLanes);
    const auto sign = hn::BitCast(di, hn::Xor(v, largest));
    const auto opposite = hn::RebindMask(d, hn::Lt(sign, hn::Zero(di)));
    hn::Store(hn::Abs(v), d, lanes.magnitude + i * kLanes);
    hn::Store(hn::IfThenElse(opposite, hn::Set(d, 7.0F), hn::Set(d, 8.0F)), d,
              lanes.most + i * kLanes);
  }
  return largest;
}

// A candidate for the scale, as Int4Candidate computes it.
HWY_INLINE hn::Vec<Floats> Candidate(hn::Vec<Floats> largest, int64_t candidate) {
  const Floats d;
  const Words words;
  const auto t = hn::Set(d, -6.5F - 0.25F * static_cast<float>(candidate));
  const auto bits = hn::BitCast(words, hn::Div(largest, t));
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fff)));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::ShiftRight<16>(rounded)));
}

// |q| of value i as floats; `inverse` is |1 / scale|.
HWY_INLINE hn::Vec<Floats> Steps(const GroupLanes& lanes, int64_t i, hn::Vec<Floats> inverse) {
  const Floats d;
  const auto magnitude = hn::Load(d, lanes.magnitude + i * kLanes);
  return hn::Min(hn::Round(hn::Mul(magnitude, inverse)), hn::Load(d, lanes.most + i * kLanes));
}

// `scale` is |scale|, and values are magnitudes, since an error's sign does not count.
HWY_INLINE hn::Vec<Floats> SquaredErrors(const GroupLanes& lanes, hn::Vec<Floats> scale) {
  const Floats d;
  const auto inverse = hn::Div(hn::Set(d, 1.0F), scale);
  hn::Vec<Floats> sums[kSums];
  HWY_UNROLL(8)
  for (int64_t j = 0; j < kSums; ++j) sums[j] = hn::Zero(d);
  for (int64_t i = 0; i < kInt4Group; i += kSums) {
    HWY_UNROLL(8)
    for (int64_t j = 0; j < kSums; ++j) {
      const auto magnitude = hn::Load(d, lanes.magnitude + (i + j) * kLanes);
      const auto error = hn::Sub(magnitude, hn::Mul(scale, Steps(lanes, i + j, inverse)));
      sums[j] = hn::Add(sums[j], hn::Mul(error, error));
    }
  }
  auto sum = sums[0];
  HWY_UNROLL(8)
  for (int64_t j = 1; j < kSums; ++j) sum = hn::Add(sum, sums[j]);
  return sum;
}

// The first of the candidates with the least error.
HWY_INLINE hn::Vec<Floats> BestScales(const GroupLanes& lanes, hn::Vec<Floats> largest) {
  const Floats d;
  auto best = hn::Zero(d);
  auto least = hn::Set(d, std::numeric_limits<float>::infinity());
  for (int64_t candidate = 0; candidate < kInt4Candidates; ++candidate) {
    const auto scale = Candidate(largest, candidate);
    const auto errors = SquaredErrors(lanes, hn::Abs(scale));
    const auto better = hn::Lt(errors, least);
    least = hn::IfThenElse(better, errors, least);
    best = hn::IfThenElse(better, scale, best);
  }
  return best;
}

// Word `word` of the groups.
HWY_INLINE hn::Vec<Words> PackWord(const GroupLanes& lanes, int64_t word, hn::Vec<Floats> inverse) {
  const Floats d;
  auto packed = hn::Zero(Words());
  HWY_UNROLL(8)
  for (int64_t k = 0; k < 8; ++k) {
    const int64_t i = 8 * word + k;
    const auto most = hn::Load(d, lanes.most + i * kLanes);
    const auto sign = hn::Sub(hn::Set(d, 15.0F), hn::Add(most, most));  // of 8: -1, of 7: 1
    const auto q = hn::Add(hn::Mul(sign, Steps(lanes, i, inverse)), hn::Set(d, float{kInt4Offset}));
    const auto bits = hn::BitCast(Words(), hn::ConvertTo(Ints(), q));
    packed = hn::Or(packed, hn::ShiftLeftSame(bits, static_cast<int>(k % 4 * 8 + k / 4 * 4)));
  }
  return packed;
}

// Quantizes up to kLanes groups.
HWY_INLINE void QuantizeLanes(const float* values, int64_t groups, BFloat16* scales,
                              uint32_t* words) {
  const Floats d;
  const auto one = hn::Set(d, 1.0F);
  GroupLanes lanes;
  const auto largest = LoadGroups(values, groups, lanes);
  const auto tiny = hn::Lt(hn::Abs(largest), hn::Set(d, kInt4Tiny));
  const auto best = hn::IfThenElse(tiny, one, BestScales(lanes, largest));
  const auto inverse = hn::IfThenZeroElse(tiny, hn::Div(one, hn::Abs(best)));
  alignas(64) float scale[kLanes];
  hn::Store(best, d, scale);
  for (int64_t g = 0; g < groups; ++g) scales[g] = ToBFloat16(scale[g]);

  static_assert(kInt4Words == 4);
  alignas(64) uint32_t packed[kInt4Words * kLanes];
  hn::StoreInterleaved4(PackWord(lanes, 0, inverse), PackWord(lanes, 1, inverse),
                        PackWord(lanes, 2, inverse), PackWord(lanes, 3, inverse), Words(), packed);
  std::copy_n(packed, kInt4Words * groups, words);
}

void QuantizeGroupsImpl(const float* values, int64_t groups, BFloat16* scales, uint32_t* words) {
  for (int64_t g = 0; g < groups; g += kLanes) {
    QuantizeLanes(values + g * kInt4Group, std::min(kLanes, groups - g), scales + g,
                  words + g * kInt4Words);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(QuantizeGroupsImpl);

}  // namespace

void QuantizeGroups(const float* values, int64_t groups, BFloat16* scales, uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(QuantizeGroupsImpl)(values, groups, scales, words);
}

}  // namespace tvq
#endif  // HWY_ONCE
