// LayerNorm takes two passes over a row, which stays in the L1 cache: one for the mean, one for the
// squares of the differences from it. That loses no digits however far the mean is from zero.
#include "kernels/ops/norm_rows.h"

#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/norm_rows/norm_row.h"
#include "kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm_rows/norm_rows.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
#include "kernels/cpu/fast_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;

// 1 / sqrt(mean(x^2) + epsilon), by four vectors of partial sums.
float InverseRms(const float* x, int64_t width, float epsilon) {
  const Floats d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d);
  auto s1 = hn::Zero(d);
  auto s2 = hn::Zero(d);
  auto s3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * lanes <= width; i += 4 * lanes) {
    const auto v0 = hn::LoadU(d, x + i);
    const auto v1 = hn::LoadU(d, x + i + lanes);
    const auto v2 = hn::LoadU(d, x + i + 2 * lanes);
    const auto v3 = hn::LoadU(d, x + i + 3 * lanes);
    s0 = hn::MulAdd(v0, v0, s0);
    s1 = hn::MulAdd(v1, v1, s1);
    s2 = hn::MulAdd(v2, v2, s2);
    s3 = hn::MulAdd(v3, v3, s3);
  }
  for (; i < width; i += lanes) {
    const auto v = LoadFirst(d, x + i, static_cast<size_t>(width - i));
    s0 = hn::MulAdd(v, v, s0);
  }
  const auto sum = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  const float squares = hn::GetLane(hn::SumOfLanes(d, sum));
  return 1.0F / std::sqrt(squares / static_cast<float>(width) + epsilon);
}

// add(sum, x) over all of x, by four vectors of partial sums; lanes beyond the last x keep their
// sum.
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

float InverseDeviation(const float* x, float mean, int64_t width, float epsilon) {
  const auto square = [&](auto sum, auto v) HWY_ATTR {
    const auto rest = hn::Sub(v, hn::Set(Floats(), mean));
    return hn::MulAdd(rest, rest, sum);
  };
  const float variance = SumRow(x, width, square) / static_cast<float>(width);
  return 1.0F / std::sqrt(variance + epsilon);
}

void NormRowImpl(Norm norm, float epsilon, const float* x, const float* gain, const float* bias,
                 int64_t width, float* out) {
  const Floats d;
  epsilon = EpsilonOf(norm, epsilon);
  const bool layer = norm == Norm::kLayer;
  const auto plain = [](auto sum, auto v) HWY_ATTR { return hn::Add(sum, v); };
  const float mean = layer ? SumRow(x, width, plain) / static_cast<float>(width) : 0;
  const auto factor =
      hn::Set(d, layer ? InverseDeviation(x, mean, width, epsilon) : InverseRms(x, width, epsilon));
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < width; i += lanes) {
    const size_t count = static_cast<size_t>(width - i);
    auto v = hn::Mul(hn::Sub(LoadFirst(d, x + i, count), hn::Set(d, mean)), factor);
    if (gain != nullptr) v = hn::Mul(v, LoadFirst(d, gain + i, count));
    if (bias != nullptr) v = hn::Add(v, LoadFirst(d, bias + i, count));
    StoreFirst(v, d, out + i, count);
  }
}

void RmsNormQueryImpl(const float* x, float t, const float* u, const float* w, int64_t width,
                      float* out_u, float* out_w) {
  const Floats d;
  const auto factor = hn::Set(d, InverseRms(x, width, kRmsNormEpsilon) * t);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < width; i += lanes) {
    const size_t count = static_cast<size_t>(width - i);
    const auto v = hn::Mul(LoadFirst(d, x + i, count), factor);
    StoreFirst(hn::Add(v, LoadFirst(d, u + i, count)), d, out_u + i, count);
    StoreFirst(hn::Add(v, LoadFirst(d, w + i, count)), d, out_w + i, count);
  }
}

void RmsNormKeyImpl(float* x, float t, int64_t width) {
  const Floats d;
  const auto factor = hn::Set(d, InverseRms(x, width, kRmsNormEpsilon) * t);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < width; i += lanes) {
    const size_t count = static_cast<size_t>(width - i);
    StoreFirst(hn::Mul(LoadFirst(d, x + i, count), factor), d, x + i, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(NormRowImpl);
HWY_EXPORT(RmsNormQueryImpl);
HWY_EXPORT(RmsNormKeyImpl);

}  // namespace

void NormRow(Norm norm, float epsilon, const float* x, const float* gain, const float* bias,
             int64_t width, float* out) {
  HWY_DYNAMIC_DISPATCH(NormRowImpl)(norm, epsilon, x, gain, bias, width, out);
}

void RmsNormQuery(const float* x, float t, const float* u, const float* w, int64_t width,
                  float* out_u, float* out_w) {
  HWY_DYNAMIC_DISPATCH(RmsNormQueryImpl)(x, t, u, w, width, out_u, out_w);
}

void RmsNormKey(float* x, float t, int64_t width) {
  HWY_DYNAMIC_DISPATCH(RmsNormKeyImpl)(x, t, width);
}

absl::Status CpuNormRows(Device& device, const NormRowsArgs& args) {
  const int64_t rows = args.x.dim(0);
  const int64_t width = args.x.dim(1);
  RunTasks(AsCpu(device), rows, rows * width * 4, [&](int64_t row) {
    NormRow(args.norm, args.epsilon, args.x.row(row), args.gain.data, args.bias.data, width,
            args.out.row(row));
  });
  return absl::OkStatus();
}

}  // namespace tvq
#endif  // HWY_ONCE
