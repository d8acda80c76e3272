// Prepares the rows of a linear, in every format.
#include <cstring>
#include <limits>

#include "kernels/cpu/linear/fixed_point.h"
#include "kernels/cpu/linear/packed_weight.h"
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
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Halves = hn::Rebind<uint16_t, Floats>;

// Values of x [in] from i on, or of x * times where `times` is given.
HWY_INLINE hn::Vec<Floats> LoadValues(const float* x, const float* times, int64_t i, int64_t in) {
  const Floats d;
  const auto count = static_cast<size_t>(in - i);
  const auto v = LoadFirst(d, x + i, count);
  return times == nullptr ? v : hn::Mul(v, LoadFirst(d, times + i, count));
}

// Rounds like ToBFloat16, to nearest even; the result is in the lower half of each word.
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

void PrepareFloats(const float* x, const float* times, int64_t in, RowFormat format, void* row) {
  const Floats d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < in; i += lanes) {
    const size_t count = static_cast<size_t>(in - i);
    const auto v = LoadValues(x, times, i, in);
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

// The bits of the largest |value|. As integers the bits have the order of the numbers, with
// infinity and NaN above all others.
int32_t LargestBits(const float* x, const float* times, int64_t in) {
  const Ints ints;
  auto largest = hn::Zero(ints);
  for (int64_t i = 0; i < in; i += static_cast<int64_t>(hn::Lanes(ints))) {
    largest = hn::Max(largest, hn::BitCast(ints, hn::Abs(LoadValues(x, times, i, in))));
  }
  return hn::GetLane(hn::MaxOfLanes(ints, largest));
}

// Rounds values below 2^22 to nearest even. The result is the same on every instruction set, which
// that of NearestInt is not.
HWY_INLINE hn::Vec<Ints> RoundToInt(hn::Vec<Floats> v) {
  const auto shift = hn::Set(Floats(), 0x1.8p23F);
  const Ints ints;
  return hn::Sub(hn::BitCast(ints, hn::Add(v, shift)), hn::BitCast(ints, shift));
}

void PrepareFixedPoint(const float* x, const float* times, int64_t in, RowFormat format,
                       void* row) {
  constexpr int32_t kInfinity = 0x7f800000;
  const Ints ints;
  const hn::Rebind<int16_t, Ints> words;
  const hn::Rebind<int8_t, Ints> bytes;
  const bool grouped = format == RowFormat::kGroupedWords || format == RowFormat::kGroupedBytes;
  const bool as_words = format == RowFormat::kFixedPointWords || format == RowFormat::kGroupedWords;
  const int64_t values = grouped ? GroupedValues(in) : FixedPointValues(in);
  std::byte* data = static_cast<std::byte*>(row) + sizeof(FixedPointHead);
  FixedPointHead head{};
  const int32_t largest_bits = LargestBits(x, times, in);
  if (largest_bits >= kInfinity) {
    head.step = std::numeric_limits<float>::quiet_NaN();
    std::memset(data, 0, static_cast<size_t>(PreparedRowBytes(in, format)) - sizeof(head));
    std::memcpy(row, &head, sizeof(head));
    return;
  }
  float room;
  std::memcpy(&room, &largest_bits, sizeof(room));
  room *= 1.004F;
  int32_t exponent;
  std::memcpy(&exponent, &room, sizeof(exponent));
  exponent = HWY_MAX((exponent >> 23) - 14, 3);  // of the step, plus the bias of 127
  const int32_t step_bits = exponent << 23, inverse_bits = (254 - exponent) << 23;
  float inverse_step;
  std::memcpy(&head.step, &step_bits, sizeof(step_bits));
  std::memcpy(&inverse_step, &inverse_bits, sizeof(inverse_bits));

  auto* high_bytes = reinterpret_cast<int8_t*>(data);
  auto* low_bytes = high_bytes + values;
  auto* all_words = reinterpret_cast<int16_t*>(data);
  std::byte* offset = data + 2 * values;  // the group's
  auto high_sum = hn::Zero(ints), low_sum = hn::Zero(ints), group_sum = hn::Zero(ints);
  for (int64_t i = 0; i < values; i += static_cast<int64_t>(hn::Lanes(ints))) {
    const auto x_here = i < in ? LoadValues(x, times, i, in) : hn::Zero(Floats());
    const auto q = RoundToInt(hn::Mul(x_here, hn::Set(Floats(), inverse_step)));
    const auto high = hn::ShiftRight<8>(hn::Add(q, hn::Set(ints, 128)));
    const auto low = hn::Sub(q, hn::ShiftLeft<8>(high));
    high_sum = hn::Add(high_sum, high);
    low_sum = hn::Add(low_sum, low);
    const auto count = static_cast<size_t>(values - i);
    if (as_words) {
      StoreFirst(hn::DemoteTo(words, q), words, all_words + i, count);
    } else {
      StoreFirst(hn::DemoteTo(bytes, high), bytes, high_bytes + i, count);
      StoreFirst(hn::DemoteTo(bytes, low), bytes, low_bytes + i, count);
    }
    group_sum = hn::Add(group_sum, q);
    if (grouped && (i + static_cast<int64_t>(hn::Lanes(ints))) % kInt4Group == 0) {
      const int32_t sum = -kInt4Offset * hn::GetLane(hn::SumOfLanes(ints, group_sum));
      std::memcpy(offset, &sum, sizeof(sum));
      offset += sizeof(sum);
      group_sum = hn::Zero(ints);
    }
  }
  head.high_offset = -kInt8Offset * hn::GetLane(hn::SumOfLanes(ints, high_sum));
  head.low_offset = -kInt8Offset * hn::GetLane(hn::SumOfLanes(ints, low_sum));
  std::memcpy(row, &head, sizeof(head));
}

void PrepareRowImpl(const float* x, const float* times, int64_t in, RowFormat format, void* row) {
  if (format >= RowFormat::kFixedPointWords) return PrepareFixedPoint(x, times, in, format, row);
  PrepareFloats(x, times, in, format, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(PrepareRowImpl);

}  // namespace

void PrepareRow(const float* x, const float* times, int64_t in, RowFormat format, void* row) {
  HWY_DYNAMIC_DISPATCH(PrepareRowImpl)(x, times, in, format, row);
}

}  // namespace tvq
#endif  // HWY_ONCE
