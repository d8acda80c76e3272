#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops/norm_rows.h"

namespace tvq {

absl::Status ReferenceNormRows(Device&, const NormRowsArgs& args) {
  const int64_t width = args.x.dim(1);
  const bool layer = args.norm == Norm::kLayer;
  const double epsilon = EpsilonOf(args.norm, args.epsilon);
  for (int64_t i = 0; i < args.x.dim(0); ++i) {
    const float* x = args.x.row(i);
    double mean = 0;
    for (int64_t c = 0; layer && c < width; ++c) mean += x[c];
    mean /= static_cast<double>(width);
    double squares = 0;
    for (int64_t c = 0; c < width; ++c) squares += (x[c] - mean) * (x[c] - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (int64_t c = 0; c < width; ++c) {
      const double gain = args.gain.empty() ? 1.0 : args.gain.data[c];
      const double bias = args.bias.empty() ? 0.0 : args.bias.data[c];
      args.out.row(i)[c] = static_cast<float>((x[c] - mean) / deviation * gain + bias);
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq
