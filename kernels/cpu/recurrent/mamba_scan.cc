#include "kernels/ops/recurrent/mamba_scan.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/recurrent/runs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrent/mamba_scan.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
#include "kernels/cpu/recurrent/recurrence-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

struct MambaHead {
  const MambaScanArgs& args;
  int64_t head;

  const float* x(int64_t n) const { return args.convolved.row(n) + head * args.shape.value; }

  HWY_INLINE void Prepare(int64_t n, const Position& at) const {
    const MambaShape& shape = args.shape;
    const int64_t group = head / (shape.heads / shape.groups);
    const float* const in = args.convolved.row(n) + shape.inner() + group * shape.key;
    const float* const out = in + shape.groups * shape.key;
    const float* const steps = args.projected.row(n) + shape.inner() + shape.convolved();
    const float dt =
        std::min(std::max(Softplus(steps[head] + args.step_bias.data[head]), args.least_step),
                 args.most_step);
    const float decay = std::exp(dt * args.rate.data[head]);
    ForVectors(shape.key, [&](auto d, int64_t i, size_t count) HWY_ATTR {
      StoreFirst(hn::Set(d, decay), d, at.w + i, count);
      StoreFirst(LoadFirst(d, in + i, count), d, at.k + i, count);
      StoreFirst(LoadFirst(d, out + i, count), d, at.q + i, count);
    });
    ForVectors(shape.value, [&](auto d, int64_t i, size_t count) HWY_ATTR {
      StoreFirst(hn::Mul(LoadFirst(d, x(n) + i, count), hn::Set(d, dt)), d, at.v + i, count);
    });
  }

  HWY_INLINE void Finish(int64_t n, const Position& at) const {
    const float* const z = args.projected.row(n) + head * args.shape.value;
    float* const out = args.out.row(n) + head * args.shape.value;
    const float skip = args.skip.data[head];
    ForVectors(args.shape.value, [&](auto d, int64_t i, size_t count) HWY_ATTR {
      const auto y = hn::MulAdd(LoadFirst(d, x(n) + i, count), hn::Set(d, skip),
                                LoadFirst(d, at.y + i, count));
      StoreFirst(hn::Mul(y, FastSilu(d, LoadFirst(d, z + i, count))), d, out + i, count);
    });
  }
};

void MambaHeadImpl(const MambaScanArgs& args, int64_t run, int64_t head) {
  const MambaHead of_head{args, head};
  RecurHead</*kRemoves=*/false>(
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

HWY_EXPORT(MambaHeadImpl);

}  // namespace

absl::Status CpuMambaScan(Device& device, const MambaScanArgs& args) {
  RunHeads(device, args.sessions, args.out, args.shape.key, [&](int64_t run, int64_t head) {
    HWY_DYNAMIC_DISPATCH(MambaHeadImpl)(args, run, head);
  });
  return absl::OkStatus();
}

}  // namespace tvq
#endif  // HWY_ONCE
