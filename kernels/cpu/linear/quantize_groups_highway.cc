// A vector holds candidates for a group's scale, and meets one value of the group after the other:
// so the eight sums of errors that int4.cc adds up are eight vectors, and nothing is added across.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/bfloat16.h"
#include "kernels/cpu/linear/quantize_groups.h"
#include "kernels/int4.h"

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
constexpr int64_t kLanes = HWY_MIN(HWY_LANES(float), 16);
constexpr int64_t kVectors = (kInt4Candidates + kLanes - 1) / kLanes;  // of candidates
constexpr int64_t kSums = 8;

// Candidates [first, first + kLanes) as Int4Candidate has them, and more in the same way.
HWY_INLINE hn::Vec<Floats> Candidates(float largest, int64_t first) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> words;
  const auto candidate = hn::Iota(d, static_cast<float>(first));
  const auto t = hn::Sub(hn::Set(d, -6.5F), hn::Mul(hn::Set(d, 0.25F), candidate));
  const auto bits = hn::BitCast(words, hn::Div(hn::Set(d, largest), t));
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fff)));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::ShiftRight<16>(rounded)));
}

// A value's q as a float.
HWY_INLINE hn::Vec<Floats> Steps(hn::Vec<Floats> value, hn::Vec<Floats> inverse) {
  const Floats d;
  const auto nearest = hn::Round(hn::Mul(value, inverse));
  return hn::Min(hn::Max(nearest, hn::Set(d, -8.0F)), hn::Set(d, 7.0F));
}

HWY_INLINE hn::Vec<Floats> SquaredErrors(const float* group, hn::Vec<Floats> scale) {
  const Floats d;
  const auto inverse = hn::Div(hn::Set(d, 1.0F), scale);
  hn::Vec<Floats> sums[kSums];
  HWY_UNROLL(8)
  for (int64_t j = 0; j < kSums; ++j) sums[j] = hn::Zero(d);
  for (int64_t i = 0; i < kInt4Group; i += kSums) {
    HWY_UNROLL(8)
    for (int64_t j = 0; j < kSums; ++j) {
      const auto value = hn::Set(d, group[i + j]);
      const auto error = hn::Sub(value, hn::Mul(scale, Steps(value, inverse)));
      sums[j] = hn::Add(sums[j], hn::Mul(error, error));
    }
  }
  auto sum = sums[0];
  HWY_UNROLL(8)
  for (int64_t j = 1; j < kSums; ++j) sum = hn::Add(sum, sums[j]);
  return sum;
}

// The first of the candidates with the least error.
HWY_INLINE float BestScale(const float* group, float largest) {
  const Floats d;
  hn::Vec<Floats> scales[kVectors], errors[kVectors];
  auto least = hn::Set(d, std::numeric_limits<float>::infinity());
  HWY_UNROLL(16)
  for (int64_t v = 0; v < kVectors; ++v) {
    scales[v] = Candidates(largest, v * kLanes);
    const auto is_one = hn::FirstN(d, static_cast<size_t>(kInt4Candidates - v * kLanes));
    errors[v] = hn::IfThenElse(is_one, SquaredErrors(group, scales[v]),
                               hn::Set(d, std::numeric_limits<float>::infinity()));
    least = hn::Min(least, errors[v]);
  }
  least = hn::MinOfLanes(d, least);
  float lanes[kLanes];
  for (int64_t v = 0; v < kVectors; ++v) {
    const intptr_t lane = hn::FindFirstTrue(d, hn::Eq(errors[v], least));
    if (lane < 0) continue;
    hn::StoreU(scales[v], d, lanes);
    return lanes[lane];
  }
  return 0;
}

// The first of the group's values of the largest magnitude.
HWY_INLINE float FirstLargest(const float* group) {
  const Floats d;
  auto most = hn::Zero(d);
  for (int64_t i = 0; i < kInt4Group; i += kLanes) {
    most = hn::Max(most, hn::Abs(hn::LoadU(d, group + i)));
  }
  most = hn::MaxOfLanes(d, most);
  for (int64_t i = 0; i < kInt4Group; i += kLanes) {
    const intptr_t lane = hn::FindFirstTrue(d, hn::Eq(hn::Abs(hn::LoadU(d, group + i)), most));
    if (lane >= 0) return group[i + lane];
  }
  return 0;
}

BFloat16 QuantizeOne(const float* group, int8_t* q) {
  const Floats d;
  const float largest = FirstLargest(group);
  if (std::abs(largest) < kInt4Tiny) {
    std::fill_n(q, kInt4Group, int8_t{0});
    return ToBFloat16(1);
  }
  const float scale = BestScale(group, largest);
  const auto inverse = hn::Set(d, 1 / scale);
  const hn::Rebind<int8_t, Floats> bytes;
  for (int64_t i = 0; i < kInt4Group; i += kLanes) {
    const auto steps = hn::ConvertTo(Ints(), Steps(hn::LoadU(d, group + i), inverse));
    hn::StoreU(hn::DemoteTo(bytes, steps), bytes, q + i);
  }
  return ToBFloat16(scale);
}

void QuantizeGroupsImpl(const float* values, int64_t groups, BFloat16* scales, int8_t* q) {
  for (int64_t g = 0; g < groups; ++g) {
    scales[g] = QuantizeOne(values + g * kInt4Group, q + g * kInt4Group);
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

void QuantizeGroups(const float* values, int64_t groups, BFloat16* scales, int8_t* q) {
  HWY_DYNAMIC_DISPATCH(QuantizeGroupsImpl)(values, groups, scales, q);
}

}  // namespace tvq
#endif  // HWY_ONCE
