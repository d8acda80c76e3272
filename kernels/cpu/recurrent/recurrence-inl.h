// One head's recurrence (kernels/ops/recurrent/recurrence.h), included once per instruction set.
//
// Values lie next to one another in S [K, V], so that a vector holds the same key's numbers for
// several values, and a^T S and S^T q need no sum across lanes. A block of positions is prepared
// first. Then a tile of S, a few vectors of values wide, stays in the L1 cache while all positions
// of the block pass over it: once for a^T S, once for the rest. That is 5 K V operations a
// position. The form by products of matrices over chunks of positions (WY, in the papers that
// recurrence.h names) takes no fewer at the widths of published models, and would round differently
// from decode.
#if defined(TVQ_KERNELS_CPU_RECURRENT_RECURRENCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TVQ_KERNELS_CPU_RECURRENT_RECURRENCE_INL_H_
#undef TVQ_KERNELS_CPU_RECURRENT_RECURRENCE_INL_H_
#else
#define TVQ_KERNELS_CPU_RECURRENT_RECURRENCE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "hwy/highway.h"
#include "kernels/cpu/fast_math-inl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/recurrent/runs.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;

// The vectors of a head at one position, and what the recurrence makes of them.
struct Position {
  float *w, *a, *b, *k, *q;  // [K]
  float *v, *y;              // [V]
};

// f(d, i, count) for every vector of `width` numbers, of which the last may have fewer than the
// lanes.
template <class F>
HWY_INLINE void ForVectors(int64_t width, const F& f) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < width; i += lanes) f(d, i, static_cast<size_t>(width - i));
}

// The sum of term(d, i, count) over all vectors, whose lanes beyond `count` are zero.
template <class Term>
HWY_INLINE float SumVectors(int64_t width, const Term& term) {
  auto sum = hn::Zero(Floats());
  ForVectors(width, [&](auto d, int64_t i, size_t count)
                        HWY_ATTR { sum = hn::Add(sum, term(d, i, count)); });
  return hn::GetLane(hn::SumOfLanes(Floats(), sum));
}

// log(1 + e^x), without overflow.
inline float Softplus(float x) { return std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x))); }

HWY_INLINE float SumOfSquares(const float* x, int64_t width) {
  return SumVectors(width, [&](auto d, int64_t i, size_t count) HWY_ATTR {
    const auto v = LoadFirst(d, x + i, count);
    return hn::Mul(v, v);
  });
}

// Takes one position through kVectors vectors of values of S, from `matrix` on; rows are `stride`
// apart. The last vector may have only `count` values. kRemoves: a and b are not 0.
template <int kVectors, bool kRemoves>
HWY_INLINE void StepVectors(const Position& at, int64_t key, float* matrix, int64_t stride,
                            int64_t first, size_t count) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  using Vec = hn::Vec<Floats>;
  Vec removed[kVectors], more[kVectors];
  for (int i = 0; i < kVectors; ++i) removed[i] = more[i] = hn::Zero(d);
  const auto load = [&](const float* row, int i) HWY_ATTR {
    return i + 1 < kVectors ? hn::LoadU(d, row + i * lanes) : LoadFirst(d, row + i * lanes, count);
  };
  if constexpr (kRemoves) {
    int64_t j = 0;
    for (; j + 2 <= key; j += 2) {
      const auto a0 = hn::Set(d, at.a[j]), a1 = hn::Set(d, at.a[j + 1]);
      const float* const row = matrix + j * stride;
      for (int i = 0; i < kVectors; ++i) {
        removed[i] = hn::MulAdd(load(row, i), a0, removed[i]);
        more[i] = hn::MulAdd(load(row + stride, i), a1, more[i]);
      }
    }
    if (j < key) {
      const auto a0 = hn::Set(d, at.a[j]);
      for (int i = 0; i < kVectors; ++i) {
        removed[i] = hn::MulAdd(load(matrix + j * stride, i), a0, removed[i]);
      }
    }
    for (int i = 0; i < kVectors; ++i) removed[i] = hn::Add(removed[i], more[i]);
  }
  Vec values[kVectors], sums[kVectors];
  for (int i = 0; i < kVectors; ++i) {
    values[i] = load(at.v + first, i);
    sums[i] = hn::Zero(d);
  }
  for (int64_t j = 0; j < key; ++j) {
    float* const row = matrix + j * stride;
    const auto w = hn::Set(d, at.w[j]), k = hn::Set(d, at.k[j]), q = hn::Set(d, at.q[j]);
    for (int i = 0; i < kVectors; ++i) {
      auto s = hn::Mul(load(row, i), w);
      if constexpr (kRemoves) s = hn::NegMulAdd(removed[i], hn::Set(d, at.b[j]), s);
      s = hn::MulAdd(values[i], k, s);
      sums[i] = hn::MulAdd(s, q, sums[i]);
      if (i + 1 < kVectors) {
        hn::StoreU(s, d, row + i * lanes);
      } else {
        StoreFirst(s, d, row + i * lanes, count);
      }
    }
  }
  for (int i = 0; i < kVectors; ++i) {
    float* const y = at.y + first + i * lanes;
    if (i + 1 < kVectors) {
      hn::StoreU(sums[i], d, y);
    } else {
      StoreFirst(sums[i], d, y, count);
    }
  }
}

// All positions of a block, one after the other, over a whole head.
template <bool kRemoves>
HWY_INLINE void StepBlock(const Position* block, int64_t count, int64_t key, int64_t value,
                          float* matrix) {
  constexpr int kWide = 4;
  const auto lanes = static_cast<int64_t>(hn::Lanes(Floats()));
  int64_t first = 0;
  for (; first + kWide * lanes <= value; first += kWide * lanes) {
    for (int64_t t = 0; t < count; ++t) {
      StepVectors<kWide, kRemoves>(block[t], key, matrix + first, value, first,
                                   static_cast<size_t>(lanes));
    }
  }
  for (; first < value; first += lanes) {
    for (int64_t t = 0; t < count; ++t) {
      StepVectors<1, kRemoves>(block[t], key, matrix + first, value, first,
                               static_cast<size_t>(value - first));
    }
  }
}

// The positions that are prepared together.
inline constexpr int64_t kBlock = 16;

// Takes one head through all rows of a run (runs.h). prepare(n, at) fills the vectors of row n in,
// and finish(n, at) reads y; the head's `out` is zero for rows of no session.
template <bool kRemoves, class Prepare, class Finish>
HWY_INLINE void RecurHead(const RecurrentRows& sessions, int64_t run, int64_t head, int64_t key,
                          Tensor<float, 3> out, const Prepare& prepare, const Finish& finish) {
  const int64_t rows = out.dim(0), value = out.dim(2), size = key * value;
  const int64_t numbers = 5 * key + 2 * value;
  const int64_t block = sessions.prefill() ? std::min(rows, kBlock) : 1;
  std::vector<float> scratch(static_cast<size_t>(block * numbers));
  Position at[kBlock];
  for (int64_t t = 0; t < block; ++t) {
    float* const w = scratch.data() + t * numbers;
    at[t] = {w, w + key, w + 2 * key, w + 3 * key, w + 4 * key, w + 5 * key, w + 5 * key + value};
  }
  VisitRun(sessions, run, rows, [&](const RecurrentState& state, int64_t first, int64_t count) {
    if (state.none()) return std::fill_n(out.row(first) + head * value, value, 0.0F), void();
    float* const matrix = state.matrix + head * size;
    if (state.kept_matrix != nullptr) Keep(matrix, size, state.kept_matrix + head * size);
    for (int64_t begin = first; begin < first + count; begin += block) {
      const int64_t n = std::min(block, first + count - begin);
      for (int64_t t = 0; t < n; ++t) prepare(begin + t, at[t]);
      StepBlock<kRemoves>(at, n, key, value, matrix);
      for (int64_t t = 0; t < n; ++t) finish(begin + t, at[t]);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
