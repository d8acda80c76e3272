#include "kernels/ops/recurrent/rwkv_time_mix.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/recurrent/runs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrent/rwkv_time_mix.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
#include "kernels/cpu/recurrent/recurrence-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// One head: prepares the vectors of its rows for the recurrence, and finishes their outputs.
struct RwkvHead {
  const RwkvTimeMixArgs& args;
  int64_t head;

  const float* Of(const Tensor<const float, 3>& tensor, int64_t n) const {
    return tensor.row(n) + head * tensor.dim(2);
  }

  HWY_INLINE void Prepare(int64_t n, const Position& at) const {
    const int64_t width = args.r.dim(2);
    const float *const k = Of(args.k, n), *const k_k = args.k_k.row(head);
    ForVectors(width, [&](auto d, int64_t i, size_t count) HWY_ATTR {
      StoreFirst(hn::Mul(LoadFirst(d, k + i, count), LoadFirst(d, k_k + i, count)), d, at.a + i,
                 count);
    });
    const float norm = std::max(std::sqrt(SumOfSquares(at.a, width)), kRwkvLeastNorm);
    ForVectors(width, [&](auto d, int64_t i, size_t count) HWY_ATTR {
      const auto load = [&](const float* from) HWY_ATTR { return LoadFirst(d, from + i, count); };
      const auto store = [&](auto v, float* to) HWY_ATTR { StoreFirst(v, d, to + i, count); };
      const auto one = hn::Set(d, 1.0F), rate = load(Of(args.rate, n));
      const auto decay = hn::Mul(hn::Set(d, kRwkvDecayScale), load(Of(args.decay, n)));
      store(FastExp(d, decay), at.w);
      const auto direction = hn::Div(load(at.a), hn::Set(d, norm));
      store(direction, at.a);
      store(hn::Mul(direction, rate), at.b);
      const auto share = hn::MulAdd(hn::Sub(rate, one), load(args.k_a.row(head)), one);
      store(hn::Mul(load(k), share), at.k);
      store(load(Of(args.r, n)), at.q);
      auto v = load(Of(args.v, n));
      if (!args.v_first.empty()) {
        v = hn::MulAdd(hn::Sub(load(Of(args.v_first, n)), v), load(Of(args.v_mix, n)), v);
      }
      store(v, at.v);
    });
  }

  HWY_INLINE void Finish(int64_t n, const Position& at) const {
    const int64_t width = args.r.dim(2);
    const auto size = static_cast<float>(width);
    const float mean = SumVectors(width, [&](auto d, int64_t i, size_t count)
                                             HWY_ATTR { return LoadFirst(d, at.y + i, count); }) /
                       size;
    const float squares = SumVectors(width, [&](auto d, int64_t i, size_t count) HWY_ATTR {
      const auto rest = hn::Sub(LoadFirst(d, at.y + i, count), hn::Set(d, mean));
      return hn::IfThenElseZero(hn::FirstN(d, count), hn::Mul(rest, rest));
    });
    const float factor = 1.0F / std::sqrt(squares / size + args.epsilon);
    const float* const r_k = args.r_k.row(head);
    const float bonus = SumVectors(width, [&](auto d, int64_t i, size_t count) HWY_ATTR {
      const auto k = hn::Mul(LoadFirst(d, at.k + i, count), LoadFirst(d, r_k + i, count));
      return hn::Mul(LoadFirst(d, at.q + i, count), k);
    });
    float* const out = args.out.row(n) + head * width;
    ForVectors(width, [&](auto d, int64_t i, size_t count) HWY_ATTR {
      const auto load = [&](const float* from) HWY_ATTR { return LoadFirst(d, from + i, count); };
      const auto normed = hn::Mul(hn::Sub(load(at.y), hn::Set(d, mean)), hn::Set(d, factor));
      auto sum = hn::MulAdd(normed, load(args.gain.row(head)), load(args.bias.row(head)));
      sum = hn::MulAdd(hn::Set(d, bonus), load(at.v), sum);
      StoreFirst(hn::Mul(sum, load(Of(args.gate, n))), d, out + i, count);
    });
  }
};

void RwkvHeadImpl(const RwkvTimeMixArgs& args, int64_t run, int64_t head) {
  const RwkvHead of_head{args, head};
  RecurHead</*kRemoves=*/true>(
      args.sessions, run, head, args.r.dim(2), args.out,
      [&](int64_t n, const Position& at) HWY_ATTR { of_head.Prepare(n, at); },
      [&](int64_t n, const Position& at) HWY_ATTR { of_head.Finish(n, at); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(RwkvHeadImpl);

}  // namespace

absl::Status CpuRwkvTimeMix(Device& device, const RwkvTimeMixArgs& args) {
  RunHeads(device, args.sessions, args.out, args.r.dim(2),
           [&](int64_t run, int64_t head) { HWY_DYNAMIC_DISPATCH(RwkvHeadImpl)(args, run, head); });
  return absl::OkStatus();
}

}  // namespace tvq
#endif  // HWY_ONCE
