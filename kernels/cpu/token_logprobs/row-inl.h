// What is computed from one row of logits: its maximum, log-probabilities, ranks, the largest
// entries.
#if defined(TVQ_KERNELS_CPU_TOKEN_LOGPROBS_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_TOKEN_LOGPROBS_ROW_INL_H_
#undef TVQ_KERNELS_CPU_TOKEN_LOGPROBS_ROW_INL_H_
#else
#define TVQ_KERNELS_CPU_TOKEN_LOGPROBS_ROW_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "hwy/highway.h"
#include "kernels/cpu/fast_math-inl.h"
#include "kernels/cpu/token_logprobs/entry.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using RowTag = hn::CappedTag<float, 16>;

// Calls body(vector, valid lanes, index of the first lane) over a row; lanes beyond its end are
// `fill`.
template <class Body>
HWY_INLINE void ForEachVector(const float* row, int64_t size, float fill, const Body& body) {
  const RowTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) body(hn::LoadU(d, row + i), lanes, i);
  if (i < size) {
    const auto rest = static_cast<size_t>(size - i);
    body(hn::IfThenElse(hn::FirstN(d, rest), LoadFirst(d, row + i, rest), hn::Set(d, fill)),
         size - i, i);
  }
}

// NaN when any entry is NaN.
HWY_INLINE float RowMaximum(const float* row, int64_t size) {
  const RowTag d;
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  auto maximum = hn::Set(d, kLowest);
  // All bits are one until an entry is NaN, which differs from itself. Highway's Ne is false for
  // NaN on some targets.
  const hn::Rebind<int32_t, RowTag> di;
  auto number = hn::BitCast(d, hn::Set(di, -1));
  ForEachVector(row, size, kLowest, [&](auto x, int64_t, int64_t) HWY_ATTR {
    maximum = hn::Max(maximum, x);
    number = hn::And(number, hn::VecFromMask(d, hn::Eq(x, x)));
  });
  if (!hn::AllTrue(di, hn::Eq(hn::BitCast(di, number), hn::Set(di, -1)))) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  // Not MaxOfLanes: on targets without vectors it never returns less than the lowest finite number.
  HWY_ALIGN float lanes[hn::MaxLanes(RowTag())];
  hn::Store(maximum, d, lanes);
  return *std::max_element(lanes, lanes + hn::Lanes(d));
}

// e[i] = exp((row[i] - maximum) * scale), and the sum of each kExpBlock of them. `e` may be null.
// Sums of a block are float32 lane by lane (64 terms at most), sums of blocks float64: the whole is
// within 1e-6 for any size.
HWY_INLINE void RowExponentials(const float* row, int64_t size, float maximum, float scale,
                                float* e, double* block_sums) {
  const RowTag d;
  const auto top = hn::Set(d, maximum);
  const auto factor = hn::Set(d, scale);
  for (int64_t first = 0; first < size; first += kExpBlock) {
    auto sum = hn::Zero(d);
    ForEachVector(row + first, std::min(kExpBlock, size - first),
                  -std::numeric_limits<float>::infinity(),
                  [&](auto x, int64_t valid, int64_t i) HWY_ATTR {
                    const auto value = FastExp(d, hn::Mul(hn::Sub(x, top), factor));
                    sum = hn::Add(sum, value);
                    if (e != nullptr) {
                      StoreFirst(value, d, e + first + i, static_cast<size_t>(valid));
                    }
                  });
    block_sums[first / kExpBlock] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// log(sum exp(row - maximum)).
HWY_INLINE double RowLogSum(const float* row, int64_t size, float maximum) {
  double sum = 0;
  for (int64_t first = 0; first < size; first += kExpBlock) {
    double block = 0;
    RowExponentials(row + first, std::min(kExpBlock, size - first), maximum, 1, nullptr, &block);
    sum += block;
  }
  return std::log(sum);
}

// 1 + how many entries come before `target`.
HWY_INLINE int32_t RowRank(const float* row, int64_t size, int32_t target) {
  const RowTag d;
  const auto value = hn::Set(d, row[target]);
  int64_t rank = 1;
  ForEachVector(row, size, -std::numeric_limits<float>::infinity(),
                [&](auto x, int64_t valid, int64_t i) HWY_ATTR {
                  rank += static_cast<int64_t>(hn::CountTrue(d, hn::Gt(x, value)));
                  const int64_t before = std::min<int64_t>(valid, target - i);
                  if (before <= 0) return;
                  const auto lower = hn::FirstN(d, static_cast<size_t>(before));
                  rank += static_cast<int64_t>(hn::CountTrue(d, hn::And(lower, hn::Eq(x, value))));
                });
  return static_cast<int32_t>(rank);
}

// The `count` first entries of a row, best first; 0 <= count <= size. The best so far are kept in a
// heap, and a vector comparison finds entries that could enter it.
inline std::vector<Entry> RowTop(const float* row, int64_t size, int64_t count) {
  const RowTag d;
  std::vector<Entry> top;
  if (count == 0) return top;
  top.reserve(static_cast<size_t>(count));
  const auto full = [&] { return static_cast<int64_t>(top.size()) == count; };
  ForEachVector(row, size, -std::numeric_limits<float>::infinity(),
                [&](auto x, int64_t valid, int64_t i) HWY_ATTR {
                  if (full() && hn::AllFalse(d, hn::Gt(x, hn::Set(d, top.front().value)))) return;
                  for (int64_t lane = i; lane < i + valid; ++lane) {
                    const Entry entry{row[lane], static_cast<int32_t>(lane)};
                    if (full()) {
                      if (!Before(entry, top.front())) continue;
                      std::pop_heap(top.begin(), top.end(), Before);
                      top.back() = entry;
                    } else {
                      top.push_back(entry);
                    }
                    std::push_heap(top.begin(), top.end(), Before);
                  }
                });
  std::sort_heap(top.begin(), top.end(), Before);
  return top;
}

// Log-probability and rank of `target`, and of the first `top.size()` entries.
HWY_INLINE void RowLogprobs(const float* row, int64_t size, float maximum, int32_t target,
                            TokenLogprob& out, std::span<TokenLogprob> top) {
  const double log_sum = RowLogSum(row, size, maximum);
  const auto logprob = [&](float x) {
    return static_cast<float>(static_cast<double>(x) - maximum - log_sum);
  };
  out = {target, logprob(row[target]), RowRank(row, size, target)};
  int32_t rank = 0;
  for (const Entry& entry : RowTop(row, size, static_cast<int64_t>(top.size()))) {
    top[static_cast<size_t>(rank)] = {entry.id, logprob(entry.value), rank + 1};
    ++rank;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
