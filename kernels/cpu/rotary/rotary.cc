// One pass over what was projected, while it is still in cache; each row is a task.
#include "kernels/ops/rotary.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/norm_rows/norm_row.h"
#include "kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rotary/rotary.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
#include "kernels/cpu/fast_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// A head x [width] turned by angles [turned], times scale, into out, which may be x.
void TurnHead(const float* x, const float* angles, int64_t turned, float scale, int64_t width,
              float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto by = hn::Set(d, scale);
  const int64_t half = turned / 2;
  for (int64_t i = 0; i < half; i += lanes) {
    const auto count = static_cast<size_t>(half - i);
    const auto cosine = LoadFirst(d, angles + i, count);
    const auto sine = LoadFirst(d, angles + half + i, count);
    const auto first = LoadFirst(d, x + i, count);
    const auto second = LoadFirst(d, x + half + i, count);
    const auto turned_first = hn::NegMulAdd(second, sine, hn::Mul(first, cosine));
    const auto turned_second = hn::MulAdd(first, sine, hn::Mul(second, cosine));
    StoreFirst(hn::Mul(turned_first, by), d, out + i, count);
    StoreFirst(hn::Mul(turned_second, by), d, out + half + i, count);
  }
  for (int64_t i = turned; i < width; i += lanes) {
    const auto count = static_cast<size_t>(width - i);
    StoreFirst(hn::Mul(LoadFirst(d, x + i, count), by), d, out + i, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(TurnHead);

// Returns a head of a row, normed if there is a gain: x itself, or `out`, to which it writes the
// normed head.
const float* NormHead(const RotaryHeadsArgs& args, const float* x, Vector<const float> gain,
                      float* out) {
  if (gain.empty()) return x;
  NormRow(Norm::kRms, args.epsilon, x, gain.data, nullptr, args.q.dim(2), out);
  return out;
}

// Computes one query head of a row. The normed head may lie in q, so q is turned last, in place.
void QueryHead(const RotaryHeadsArgs& args, const float* x, int64_t n, int64_t h) {
  const int64_t width = args.q.dim(2), turned = args.angles.dim(1);
  const auto turn = [&](const float* from, const float* angles, float* out) {
    HWY_DYNAMIC_DISPATCH(TurnHead)(from, angles, turned, args.scale, width, out);
  };
  float* const q = args.q.row(n) + h * width;
  const float* const normed = NormHead(args, x, args.q_gain, q);
  if (!args.far_angles.empty()) {
    turn(normed, args.far_angles.row(n), args.q_far.row(n) + h * width);
  }
  if (!args.sink_angles.empty()) {
    turn(normed, args.sink_angles.data, args.q_sink.row(n) + h * width);
  }
  turn(normed, args.angles.row(n), q);
}

void KeyHead(const RotaryHeadsArgs& args, const float* x, int64_t n, int64_t g) {
  const int64_t width = args.q.dim(2);
  float* const k = args.k.row(n) + g * width;
  const float* const normed = NormHead(args, x, args.k_gain, k);
  if (!args.k_plain.empty()) std::copy_n(normed, width, args.k_plain.row(n) + g * width);
  HWY_DYNAMIC_DISPATCH(TurnHead)(normed, args.angles.row(n), args.angles.dim(1), 1, width, k);
}

}  // namespace

absl::Status CpuRotaryAngles(Device& device, const RotaryAnglesArgs& args) {
  const int64_t half = args.frequencies.dim(0);
  constexpr int64_t kBytesOfAngle =
      512;  // reading this many takes as long as an angle's two functions
  RunTasks(AsCpu(device), args.positions.size(), args.positions.size() * half * kBytesOfAngle,
           [&](int64_t n) {
             float* out = args.out.row(n);
             const int64_t position = args.positions.data[n];
             for (int64_t i = 0; i < half; ++i) {
               const float frequency = args.frequencies.data[i];
               const double angle = args.exact ? static_cast<double>(position) * frequency
                                               : static_cast<float>(position) * frequency;
               out[i] = static_cast<float>(std::cos(angle));
               out[half + i] = static_cast<float>(std::sin(angle));
             }
           });
  return absl::OkStatus();
}

absl::Status CpuPositionRows(Device& device, const PositionRowsArgs& args) {
  return ReferencePositionRows(device, args);  // it only copies
}

absl::Status CpuRotaryHeads(Device& device, const RotaryHeadsArgs& args) {
  const auto [rows, heads, key] = args.q.shape;
  const int64_t kv_heads = args.k.dim(1), values = kv_heads * args.v.dim(2);
  RunTasks(AsCpu(device), rows, 2 * args.projected.size() * 4,
           [&, heads = heads, key = key](int64_t n) {
             const float* x = args.projected.row(n) + args.column;
             for (int64_t h = 0; h < heads; ++h, x += key) QueryHead(args, x, n, h);
             for (int64_t g = 0; g < kv_heads; ++g, x += key) KeyHead(args, x, n, g);
             std::copy_n(x, values, args.v.row(n));
           });
  return absl::OkStatus();
}

}  // namespace tvq
#endif  // HWY_ONCE
