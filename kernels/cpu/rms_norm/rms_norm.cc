#include <cmath>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rms_norm/rms_norm_row.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rms_norm/rms_norm.cc"
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
float InverseRms(const float* x, int64_t width) {
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
  return 1.0F / std::sqrt(squares / static_cast<float>(width) + kRmsNormEpsilon);
}

void RmsNormRowImpl(const float* x, const float* gain, const float* bias, int64_t width,
                    float* out) {
  const Floats d;
  const auto factor = hn::Set(d, InverseRms(x, width));
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < width; i += lanes) {
    const size_t count = static_cast<size_t>(width - i);
    auto v = hn::Mul(LoadFirst(d, x + i, count), factor);
    if (gain != nullptr) v = hn::Mul(v, LoadFirst(d, gain + i, count));
    if (bias != nullptr) v = hn::Add(v, LoadFirst(d, bias + i, count));
    StoreFirst(v, d, out + i, count);
  }
}

void RmsNormQueryImpl(const float* x, float t, const float* u, const float* w, int64_t width,
                      float* out_u, float* out_w) {
  const Floats d;
  const auto factor = hn::Set(d, InverseRms(x, width) * t);
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
  const auto factor = hn::Set(d, InverseRms(x, width) * t);
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

HWY_EXPORT(RmsNormRowImpl);
HWY_EXPORT(RmsNormQueryImpl);
HWY_EXPORT(RmsNormKeyImpl);

// Below this many values one thread is done before another would have begun.
constexpr int64_t kOneThread = 16384;

}  // namespace

void RmsNormRow(const float* x, const float* gain, const float* bias, int64_t width, float* out) {
  HWY_DYNAMIC_DISPATCH(RmsNormRowImpl)(x, gain, bias, width, out);
}

void RmsNormQuery(const float* x, float t, const float* u, const float* w, int64_t width,
                  float* out_u, float* out_w) {
  HWY_DYNAMIC_DISPATCH(RmsNormQueryImpl)(x, t, u, w, width, out_u, out_w);
}

void RmsNormKey(float* x, float t, int64_t width) {
  HWY_DYNAMIC_DISPATCH(RmsNormKeyImpl)(x, t, width);
}

absl::Status CpuRmsNorm(Device& device, const RmsNormArgs& args) {
  const int64_t rows = args.x.dim(0);
  const int64_t width = args.x.dim(1);
  const auto norm = [&](int64_t row) {
    RmsNormRow(args.x.row(row), args.gain.data, args.bias.data, width, args.out.row(row));
  };
  if (rows * width < kOneThread) {
    for (int64_t row = 0; row < rows; ++row) norm(row);
  } else {
    AsCpu(device).pool().ParallelFor(rows, norm);
  }
  return absl::OkStatus();
}

}  // namespace tvq
#endif  // HWY_ONCE
