// Sums over rows of the read copy (copy_sums.h): their factors, and the sums for every instruction
// set that Highway knows.
#if defined(TVQ_KERNELS_CPU_VQ_ATTENTION_COPY_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_VQ_ATTENTION_COPY_SUMS_INL_H_
#undef TVQ_KERNELS_CPU_VQ_ATTENTION_COPY_SUMS_INL_H_
#else
#define TVQ_KERNELS_CPU_VQ_ATTENTION_COPY_SUMS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/vq_attention/copy_sums.h"
#include "kernels/cpu/vq_attention/row_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Scales and weights of a group's rows, one for each row of the group. scales[i] points to row i's
// first scale in the task's columns.
struct CopyFactors {
  const float* scales[kCopyGroup];
  float weight[kCopyGroup];
};

// Makes the factors and steps of as many scales as a vector has lanes, from `s` on.
template <class D>
HWY_INLINE void MakeFactors(D d, const CopyFactors& factors, int64_t s, FactorForm form,
                            CopyGroup& group) {
  const hn::RebindToSigned<D> di;
  const auto factor = [&](int64_t i) HWY_ATTR {
    return hn::Mul(hn::Set(d, factors.weight[i]), hn::LoadU(d, factors.scales[i] + s));
  };
  // Compared by their bits: numbers that are not negative have the order of integers, and NaN is
  // above all of them.
  auto bits = hn::Zero(di);
  for (int64_t i = 0; i < group.rows; ++i) {
    bits = hn::Max(bits, hn::BitCast(di, hn::Abs(factor(i))));
  }
  // If the largest is at most 2^-110, its inverse would not be finite: the step is 0, and nothing
  // is lost. If the largest is not finite, neither are the step and the sums.
  const auto some = hn::Gt(bits, hn::Set(di, std::bit_cast<int32_t>(0x1p-110F)));
  const auto finite = hn::Gt(hn::Set(di, 0x7f800000), bits);
  const auto usable = hn::VecFromMask(di, hn::And(some, finite));
  const auto largest = hn::BitCast(d, bits);
  const auto step = hn::Mul(largest, hn::Set(d, 1.0F / kLargestFactor));
  hn::StoreU(hn::IfThenElseZero(hn::RebindMask(d, some), step), d, group.step + s);
  const auto inverse = hn::Div(hn::Set(d, static_cast<float>(kLargestFactor)), largest);

  // Rounded to an integer by an addition of 2^23.
  const auto fixed = [&](int64_t i) HWY_ATTR {
    const auto rounded = hn::Add(hn::Mul(factor(i), inverse), hn::Set(d, 0x1p23F));
    return hn::And(hn::And(hn::BitCast(di, rounded), hn::Set(di, 0x7fff)), usable);
  };
  const auto bytes = hn::Set(di, 0x00ff00ff);
  for (int64_t i = 0; i < group.rows; i += 4) {
    auto first = hn::Or(fixed(i), hn::ShiftLeft<16>(fixed(i + 1)));
    auto second = hn::Or(fixed(i + 2), hn::ShiftLeft<16>(fixed(i + 3)));
    if (form == FactorForm::kBytes) {
      const auto low = hn::Or(hn::And(first, bytes), hn::ShiftLeft<8>(hn::And(second, bytes)));
      first = hn::Or(hn::And(hn::ShiftRight<8>(first), bytes), hn::AndNot(bytes, second));
      second = low;
    }
    auto* to = reinterpret_cast<int32_t*>(group.factor[i / 2] + s);
    hn::StoreU(first, di, to);
    hn::StoreU(second, di, to + kCopyScales);
  }
}

// The same for all scales, by the widest vectors that do not reach past them; the last vector may
// compute some again.
HWY_INLINE void MakeFactors(const CopyFactors& factors, FactorForm form, CopyGroup& group) {
  const int64_t scales = (group.columns + kVqScaleColumns - 1) / kVqScaleColumns;
  const auto make = [&](auto d) HWY_ATTR {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (scales < lanes) return false;
    for (int64_t s = 0; s < scales; s += lanes) {
      MakeFactors(d, factors, std::min(s, scales - lanes), form, group);
    }
    return true;
  };
  if (make(hn::CappedTag<float, 16>())) return;
  if (make(hn::CappedTag<float, 8>())) return;
  if (make(hn::CappedTag<float, 4>())) return;
  make(hn::CappedTag<float, 1>());
}

// Adds columns [first, end) of a group, which share a scale, one by one.
inline void AddCopyColumns(const CopyGroup& group, int64_t first, int64_t end) {
  const int64_t scale = first / kVqScaleColumns;
  for (int64_t c = first; c < end; ++c) {
    int32_t sum = 0;
    for (int64_t i = 0; i < group.rows; i += 2) {
      const uint32_t factor = group.factor[i / 2][scale];
      sum += group.row[i][c] * static_cast<int32_t>(factor & 0xffff);
      sum += group.row[i + 1][c] * static_cast<int32_t>(factor >> 16);
    }
    group.out[c] =
        hn::GetLane(hn::MulAdd(hn::Set(hn::CappedTag<float, 1>(), static_cast<float>(sum)),
                               hn::Set(hn::CappedTag<float, 1>(), group.step[scale]),
                               hn::Set(hn::CappedTag<float, 1>(), group.out[c])));
  }
}

#if HWY_TARGET == HWY_SCALAR

inline void AddCopyGroup(const CopyGroup& group) {
  for (int64_t c = 0; c < group.columns; c += kVqScaleColumns) {
    group.fetch->Turn(group.rows);
    AddCopyColumns(group, c, std::min(c + kVqScaleColumns, group.columns));
  }
}

#else

// By 16-bit multiplications: values of two rows are widened, interleaved and multiplied with both
// factors, and neighbours are added.
inline void AddCopyGroup(const CopyGroup& group) {
  using Words = hn::CappedTag<int16_t, 16>;
  const Words words;
  const hn::Rebind<int8_t, Words> narrow;
  const hn::RepartitionToWide<Words> ints;
  const hn::RebindToFloat<decltype(ints)> floats;
  const auto lanes = static_cast<int64_t>(hn::Lanes(words));
  const auto add = [&](int64_t c) HWY_ATTR {
    const int64_t scale = c / kVqScaleColumns;
    // Where products do not come in the order of columns, the `rest` takes half of them.
    auto lower = hn::Zero(ints), lower_rest = hn::Zero(ints);
    auto upper = hn::Zero(ints), upper_rest = hn::Zero(ints);
    for (int64_t i = 0; i < group.rows; i += 2) {
      const auto a = hn::PromoteTo(words, hn::LoadU(narrow, group.row[i] + c));
      const auto b = hn::PromoteTo(words, hn::LoadU(narrow, group.row[i + 1] + c));
      const auto q =
          hn::BitCast(words, hn::Set(ints, static_cast<int32_t>(group.factor[i / 2][scale])));
      lower = hn::ReorderWidenMulAccumulate(ints, hn::InterleaveLower(words, a, b), q, lower,
                                            lower_rest);
      upper = hn::ReorderWidenMulAccumulate(ints, hn::InterleaveUpper(words, a, b), q, upper,
                                            upper_rest);
    }
    lower = hn::RearrangeToOddPlusEven(lower, lower_rest);
    upper = hn::RearrangeToOddPlusEven(upper, upper_rest);
    const auto store = [&](auto sum, float* out) HWY_ATTR {
      hn::StoreU(hn::MulAdd(hn::ConvertTo(floats, sum), hn::Set(floats, group.step[scale]),
                            hn::LoadU(floats, out)),
                 floats, out);
    };
    // They were interleaved by blocks of 128 bits.
    if constexpr (hn::MaxLanes(Words()) == 16) {
      store(hn::ConcatLowerLower(ints, upper, lower), group.out + c);
      store(hn::ConcatUpperUpper(ints, upper, lower), group.out + c + lanes / 2);
    } else {
      store(lower, group.out + c);
      store(upper, group.out + c + lanes / 2);
    }
  };
  for (int64_t first = 0; first < group.columns; first += kVqScaleColumns) {
    group.fetch->Turn(group.rows);
    const int64_t end = std::min(first + kVqScaleColumns, group.columns);
    int64_t c = first;
    for (; c + lanes <= end; c += lanes) add(c);
    AddCopyColumns(group, c, end);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

// Rows of a run and the sums they go to.
struct CopySums {
  RowSums<int8_t> rows;
  const float* scales;  // of row i at scales + row[i] * scale_stride, the task's first
  int64_t scale_stride;

  int64_t scales_of_a_row() const { return (rows.columns + kVqScaleColumns - 1) / kVqScaleColumns; }
  int64_t Size(int64_t first) const { return std::min(kCopyGroup, rows.count - first); }
  const float* Scales(int64_t i) const { return scales + rows.row[i] * scale_stride; }
};

// Adds a run's groups in order. Meanwhile it prefetches later rows: first those of the run, then
// those of `next`, if that is not null.
class CopyAdder {
 public:
  explicit CopyAdder(const CopyGroupKind& kind) : kind_(kind) {}

  // Prefetches the first rows, which no group before them prefetches.
  void Fetch(const CopySums& sums) {
    Point(sums, nullptr, 0, std::min(kind_.rows_ahead, sums.rows.count));
    fetch_.Turn(kEverything);
  }

  void Add(const CopySums& sums, const CopySums* next) {
    CopyGroup group;
    CopyFactors factors;
    group.columns = sums.rows.columns;
    for (int64_t first = 0; first < sums.rows.count; first += kCopyGroup) {
      const int64_t size = sums.Size(first);
      group.rows = (size + 3) / 4 * 4;
      for (int64_t i = 0; i < group.rows; ++i) {
        const int64_t k = first + std::min(i, size - 1);
        group.row[i] = sums.rows.Row(k);
        factors.scales[i] = sums.Scales(k);
        factors.weight[i] = 0;
      }
      Point(sums, next, first + kind_.rows_ahead, size);
      group.fetch = &fetch_;
      for (int64_t h = 0; h < sums.rows.heads; ++h) {
        std::copy_n(sums.rows.weight + h * sums.rows.weight_stride + first, size, factors.weight);
        MakeFactors(factors, kind_.form, group);
        group.out = sums.rows.out + h * sums.rows.out_stride;
        kind_.add(group);
      }
      fetch_.Turn(kEverything);
    }
  }

 private:
  static constexpr int64_t kEverything = int64_t{1} << 40;

  // Chooses the rows that are prefetched next: `count` rows from `first` on, or those of `next`
  // where the run has no more. Prefetches their scales at once.
  void Point(const CopySums& sums, const CopySums* next, int64_t first, int64_t count) {
    int64_t size = 0;
    for (int64_t i = first; i < first + count; ++i) {
      const bool here = i < sums.rows.count;
      if (!here && (next == nullptr || i - sums.rows.count >= next->rows.count)) break;
      const CopySums& from = here ? sums : *next;
      const int64_t row = here ? i : i - sums.rows.count;
      next_[size++] = from.rows.Row(row);
      PrefetchRow(from.Scales(row), from.scales_of_a_row());
    }
    fetch_ = RowFetch(next_, size, sums.rows.columns);
  }

  const CopyGroupKind& kind_;
  const int8_t* next_[kCopyGroup];
  RowFetch fetch_;
};

// By 16-bit multiplications, which take all rows of a group side by side.
inline constexpr CopyGroupKind kCopyGroupWords = {AddCopyGroup, FactorForm::kPairs, kCopyGroup};
// By VPDPBUSD, prefetching as far ahead as the L1 cache has room.
inline constexpr CopyGroupKind kCopyGroupDot = {AddCopyGroupDot, FactorForm::kBytes, 4};
inline constexpr CopyGroupKind kCopyGroupDot256 = {AddCopyGroupDot256, FactorForm::kBytes, 4};

inline const CopyGroupKind& CopyGroupKindFor(const DotInstructions& dot) {
  if (dot.int8) return kCopyGroupDot;
  return dot.int8_256 ? kCopyGroupDot256 : kCopyGroupWords;
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
