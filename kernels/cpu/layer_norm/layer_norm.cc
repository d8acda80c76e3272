// Two passes over a row that stays in the first cache: the mean, then the squares of what is left,
// which loses no digits however far the mean is from zero.
#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/layer_norm/layer_norm_row.h"
#include "kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/layer_norm/layer_norm.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
#include "kernels/cpu/fast_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;

// add(sum, x) over all of x, by four vectors of partial sums; the last lanes may lack an x.
template <class Add>
float SumRow(const float* x, int64_t width, const Add& add) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d);
  auto s1 = hn::Zero(d);
  auto s2 = hn::Zero(d);
  auto s3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * lanes <= width; i += 4 * lanes) {
    s0 = add(s0, hn::LoadU(d, x + i));
    s1 = add(s1, hn::LoadU(d, x + i + lanes));
    s2 = add(s2, hn::LoadU(d, x + i + 2 * lanes));
    s3 = add(s3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= width; i += lanes) s0 = add(s0, hn::LoadU(d, x + i));
  if (i < width) {
    const auto count = static_cast<size_t>(width - i);
    s1 = hn::IfThenElse(hn::FirstN(d, count), add(s1, LoadFirst(d, x + i, count)), s1);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

void LayerNormRowImpl(const float* x, const float* gain, const float* bias, int64_t width,
                      float* out) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto plain = [](auto sum, auto v) HWY_ATTR { return hn::Add(sum, v); };
  const auto mean = hn::Set(d, SumRow(x, width, plain) / static_cast<float>(width));
  const auto square = [&](auto sum, auto v) HWY_ATTR {
    const auto rest = hn::Sub(v, mean);
    return hn::MulAdd(rest, rest, sum);
  };
  const float variance = SumRow(x, width, square) / static_cast<float>(width);
  const auto factor = hn::Set(d, 1.0F / std::sqrt(variance + kLayerNormEpsilon));
  for (int64_t i = 0; i < width; i += lanes) {
    const auto count = static_cast<size_t>(width - i);
    auto v = hn::Mul(hn::Sub(LoadFirst(d, x + i, count), mean), factor);
    if (gain != nullptr) v = hn::Mul(v, LoadFirst(d, gain + i, count));
    if (bias != nullptr) v = hn::Add(v, LoadFirst(d, bias + i, count));
    StoreFirst(v, d, out + i, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(LayerNormRowImpl);

}  // namespace

void LayerNormRow(const float* x, const float* gain, const float* bias, int64_t width, float* out) {
  HWY_DYNAMIC_DISPATCH(LayerNormRowImpl)(x, gain, bias, width, out);
}

absl::Status CpuLayerNorm(Device& device, const LayerNormArgs& args) {
  const int64_t rows = args.x.dim(0);
  const int64_t width = args.x.dim(1);
  RunTasks(AsCpu(device), rows, rows * width * 4, [&](int64_t row) {
    LayerNormRow(args.x.row(row), args.gain.data, args.bias.data, width, args.out.row(row));
  });
  return absl::OkStatus();
}

}  // namespace tvq
#endif  // HWY_ONCE
