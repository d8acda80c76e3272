#include "kernels/ops/recurrent/gated_delta_rule.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/recurrent/runs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrent/gated_delta_rule.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
#include "kernels/cpu/recurrent/recurrence-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

struct DeltaHead {
  const GatedDeltaRuleArgs& args;
  int64_t head;

  HWY_INLINE void Prepare(int64_t n, const Position& at) const {
    const GatedDeltaShape& shape = args.shape;
    const int64_t keys = shape.key_heads * shape.key;
    const int64_t group = head / (shape.heads / shape.key_heads);
    const float* const query = args.convolved.row(n) + group * shape.key;
    const float* const key = query + keys;
    const float* const value = args.convolved.row(n) + 2 * keys + head * shape.value;
    const float* const strengths =
        args.projected.row(n) + shape.convolved() + shape.heads * shape.value;
    const float step = Softplus((strengths + shape.heads)[head] + args.decay_bias.data[head]);
    const float alpha = std::exp(args.rate.data[head] * step);
    const float beta = 1.0F / (1.0F + std::exp(-strengths[head]));
    const auto length = [&](const float* x) HWY_ATTR {
      return std::sqrt(SumOfSquares(x, shape.key) + kDeltaNormEpsilon);
    };
    const float key_length = length(key);
    const float query_length = length(query) * std::sqrt(static_cast<float>(shape.key));
    ForVectors(shape.key, [&](auto d, int64_t i, size_t count) HWY_ATTR {
      const auto k = hn::Div(LoadFirst(d, key + i, count), hn::Set(d, key_length));
      StoreFirst(hn::Set(d, alpha), d, at.w + i, count);
      StoreFirst(k, d, at.a + i, count);
      StoreFirst(hn::Mul(k, hn::Set(d, alpha * beta)), d, at.b + i, count);
      StoreFirst(k, d, at.k + i, count);
      StoreFirst(hn::Div(LoadFirst(d, query + i, count), hn::Set(d, query_length)), d, at.q + i,
                 count);
    });
    ForVectors(shape.value, [&](auto d, int64_t i, size_t count) HWY_ATTR {
      StoreFirst(hn::Mul(LoadFirst(d, value + i, count), hn::Set(d, beta)), d, at.v + i, count);
    });
  }

  HWY_INLINE void Finish(int64_t n, const Position& at) const {
    const GatedDeltaShape& shape = args.shape;
    const float* const z = args.projected.row(n) + shape.convolved() + head * shape.value;
    const float mean = SumOfSquares(at.y, shape.value) / static_cast<float>(shape.value);
    const float factor = 1.0F / std::sqrt(mean + args.epsilon);
    float* const out = args.out.row(n) + head * shape.value;
    ForVectors(shape.value, [&](auto d, int64_t i, size_t count) HWY_ATTR {
      auto y = hn::Mul(LoadFirst(d, at.y + i, count), hn::Set(d, factor));
      y = hn::Mul(y, LoadFirst(d, args.gain.data + i, count));
      StoreFirst(hn::Mul(y, FastSilu(d, LoadFirst(d, z + i, count))), d, out + i, count);
    });
  }
};

void DeltaHeadImpl(const GatedDeltaRuleArgs& args, int64_t run, int64_t head) {
  const DeltaHead of_head{args, head};
  RecurHead</*kRemoves=*/true>(
      args.sessions, run, head, args.shape.key, args.out,
      [&](int64_t n, const Position& at) HWY_ATTR { of_head.Prepare(n, at); },
      [&](int64_t n, const Position& at) HWY_ATTR { of_head.Finish(n, at); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(DeltaHeadImpl);

}  // namespace

absl::Status CpuGatedDeltaRule(Device& device, const GatedDeltaRuleArgs& args) {
  RunHeads(device, args.sessions, args.out, args.shape.key, [&](int64_t run, int64_t head) {
    HWY_DYNAMIC_DISPATCH(DeltaHeadImpl)(args, run, head);
  });
  return absl::OkStatus();
}

}  // namespace tvq
#endif  // HWY_ONCE
