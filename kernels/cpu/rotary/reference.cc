#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops/rotary.h"

namespace tvq {
namespace {

double RotaryAngle(const RotaryAnglesArgs& args, int64_t n, int64_t i) {
  const int64_t position = args.positions.data[n];
  const float frequency = args.frequencies.data[i];
  if (args.exact) return static_cast<double>(position) * frequency;
  return static_cast<float>(position) * frequency;
}

// x [width], angles [turned], out [width].
void TurnHead(const float* x, Vector<const float> gain, float epsilon, const float* angles,
              int64_t turned, double scale, int64_t width, float* out) {
  std::vector<double> head(x, x + width);
  if (!gain.empty()) {
    double squares = 0;
    for (const double value : head) squares += value * value;
    const double rms = std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (int64_t i = 0; i < width; ++i) head[static_cast<size_t>(i)] *= gain.data[i] / rms;
  }
  std::vector<double> after = head;
  const int64_t half = turned / 2;
  for (int64_t i = 0; i < half; ++i) {
    const auto first = static_cast<size_t>(i), second = static_cast<size_t>(i + half);
    const double cosine = angles[i], sine = angles[i + half];
    after[first] = head[first] * cosine - head[second] * sine;
    after[second] = head[second] * cosine + head[first] * sine;
  }
  for (const double value : after) *out++ = static_cast<float>(scale * value);
}

}  // namespace

absl::Status ReferenceRotaryAngles(Device&, const RotaryAnglesArgs& args) {
  const int64_t half = args.frequencies.dim(0);
  for (int64_t n = 0; n < args.positions.size(); ++n) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = RotaryAngle(args, n, i);
      args.out.row(n)[i] = static_cast<float>(std::cos(angle));
      args.out.row(n)[half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return absl::OkStatus();
}

absl::Status ReferencePositionRows(Device&, const PositionRowsArgs& args) {
  const int64_t columns = args.table.dim(1);
  for (int64_t n = 0; n < args.positions.size(); ++n) {
    const int64_t row =
        std::clamp<int64_t>(args.positions.data[n] - args.first, 0, args.table.dim(0) - 1);
    std::copy_n(args.table.row(row), columns, args.out.row(n));
  }
  return absl::OkStatus();
}

absl::Status ReferenceRotaryHeads(Device&, const RotaryHeadsArgs& args) {
  const auto [rows, heads, key] = args.q.shape;
  const int64_t kv_heads = args.k.dim(1), turned = args.angles.dim(1);
  for (int64_t n = 0; n < rows; ++n) {
    const float* x = args.projected.row(n) + args.column;
    const float* angles = args.angles.row(n);
    const bool far = !args.far_angles.empty();
    for (int64_t h = 0; h < heads; ++h, x += key) {
      const auto turn = [&](const float* by, const Tensor<float, 3>& out) {
        TurnHead(x, args.q_gain, args.epsilon, by, turned, args.scale, key, out.row(n) + h * key);
      };
      turn(angles, args.q);
      if (far) turn(args.far_angles.row(n), args.q_far);
      if (!args.sink_angles.empty()) turn(args.sink_angles.data, args.q_sink);
    }
    for (int64_t g = 0; g < kv_heads; ++g, x += key) {
      TurnHead(x, args.k_gain, args.epsilon, angles, turned, 1, key, args.k.row(n) + g * key);
      if (far) {
        TurnHead(x, args.k_gain, args.epsilon, nullptr, 0, 1, key, args.k_plain.row(n) + g * key);
      }
    }
    std::copy_n(x, kv_heads * args.v.dim(2), args.v.row(n));
  }
  return absl::OkStatus();
}

}  // namespace tvq
