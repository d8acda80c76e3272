// Rows of values as pairs of bfloat16 (pair_product.h).
#if defined(TVQ_KERNELS_CPU_VQ_ATTENTION_ROW_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_VQ_ATTENTION_ROW_PAIRS_INL_H_
#undef TVQ_KERNELS_CPU_VQ_ATTENTION_ROW_PAIRS_INL_H_
#else
#define TVQ_KERNELS_CPU_VQ_ATTENTION_ROW_PAIRS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/packed_product-inl.h"
#include "kernels/cpu/stored_values-inl.h"
#include "kernels/cpu/vq_attention/pair_product.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Values as bfloat16, in the lower halves.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, D>> LowerHalves(D d, const float* from) {
  return BFloat16Bits(d, hn::LoadU(d, from));
}

template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, D>> LowerHalves(D, const BFloat16* from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  return hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from)));
}

// pair[c] = change(d, c) for c in [0, columns), a vector or one at a time; the other columns are
// zero.
template <class Change>
HWY_INLINE void FillPair(int64_t columns, uint32_t* HWY_RESTRICT pair, const Change& change) {
  const TileTag d;
  int64_t c = 0;
  for (; c + kTileLanes <= columns; c += kTileLanes) {
    hn::StoreU(change(d, c), hn::Rebind<uint32_t, TileTag>(), pair + c);
  }
  const hn::CappedTag<float, 1> d1;
  for (; c < columns; ++c) {
    hn::StoreU(change(d1, c), hn::CappedTag<uint32_t, 1>(), pair + c);
  }
  std::fill(pair + c, pair + kPackColumns, 0U);
}

// Puts `row` into a pair: an even row into the lower halves, an odd row into the upper ones. The
// other halves stay as they are, or become zero if `alone`.
template <typename T>
HWY_INLINE void PackRow(const T* row, bool odd, bool alone, int64_t columns,
                        uint32_t* HWY_RESTRICT pair) {
  const uint32_t kept = alone ? 0 : odd ? 0xffffU : 0xffff0000U;
  FillPair(columns, pair, [&](auto d, int64_t c) HWY_ATTR {
    const hn::Rebind<uint32_t, decltype(d)> d32;
    const auto half = LowerHalves(d, row + c);
    const auto other = hn::And(hn::LoadU(d32, pair + c), hn::Set(d32, kept));
    return hn::Or(other, odd ? hn::ShiftLeft<16>(half) : half);
  });
}

template <typename T>
HWY_INLINE void PackPair(const T* even, const T* odd, int64_t columns,
                         uint32_t* HWY_RESTRICT pair) {
  FillPair(columns, pair, [&](auto d, int64_t c) HWY_ATTR {
    return hn::Or(LowerHalves(d, even + c), hn::ShiftLeft<16>(LowerHalves(d, odd + c)));
  });
}

// Packs `columns` columns of all rows as the rows of `pairs` from `at` on. Other columns, and the
// second half of a last pair with one row, become zero.
template <typename T>
HWY_INLINE void PackPairs(const ValueRows<T>& rows, int64_t columns, RowPair* pairs, int64_t at) {
  const auto ahead = [&](int64_t k) {
    const T* row = rows[std::min(k + kPackAhead, rows.count - 1)];
    for (int64_t c = 0; c < columns; c += kPackLineBytes / static_cast<int64_t>(sizeof(T))) {
      __builtin_prefetch(row + c);
    }
  };
  int64_t k = 0;
  if (at % 2 != 0 && rows.count > 0) PackRow(rows[k++], true, false, columns, pairs[at / 2]);
  for (; k + 1 < rows.count; k += 2) {
    ahead(k);
    ahead(k + 1);
    PackPair(rows[k], rows[k + 1], columns, pairs[(at + k) / 2]);
  }
  if (k < rows.count) PackRow(rows[k], false, true, columns, pairs[(at + k) / 2]);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
