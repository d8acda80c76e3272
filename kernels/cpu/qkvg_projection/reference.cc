#include "kernels/cpu/linear/reference.h"

#include <cmath>
#include <vector>

#include "kernels/cpu/reference_ops.h"

namespace tvq {
namespace {

// rms_per_head(x~ W) * t for the head whose weight rows start at `first`.
std::vector<double> NormedHead(const std::vector<float>& x, const LinearWeight& weight,
                               int64_t first, int64_t width) {
  std::vector<double> head(static_cast<size_t>(width));
  double squares = 0;
  for (size_t c = 0; c < head.size(); ++c) {
    head[c] = ReferenceDot(x.data(), weight, first + static_cast<int64_t>(c));
    squares += head[c] * head[c];
  }
  const double w = static_cast<double>(width);
  const double factor = std::pow(w, -0.25) / std::sqrt(squares / w + kRmsNormEpsilon);
  for (double& value : head) value *= factor;
  return head;
}

void SiluColumns(const std::vector<float>& x, const LinearWeight& weight, int64_t first,
                 int64_t count, float* out) {
  for (int64_t c = 0; c < count; ++c) {
    out[c] = static_cast<float>(ReferenceSilu(ReferenceDot(x.data(), weight, first + c)));
  }
}

void ProjectRow(const QkvgProjectionArgs& args, int64_t n, const std::vector<float>& x) {
  const LinearWeight& weight = *args.weight;
  const int64_t heads = args.u.dim(0);
  const int64_t key = args.u.dim(1);
  const int64_t kv_heads = args.k.dim(1);
  const int64_t values = kv_heads * args.v.dim(2);
  for (int64_t h = 0; h < heads; ++h) {
    const std::vector<double> q = NormedHead(x, weight, h * key, key);
    for (int64_t c = 0; c < key; ++c) {
      const double qc = q[static_cast<size_t>(c)];
      args.q_u.row(n)[h * key + c] = static_cast<float>(qc + args.u.row(h)[c]);
      args.q_w.row(n)[h * key + c] = static_cast<float>(qc + args.w.row(h)[c]);
    }
  }
  for (int64_t h = 0; h < kv_heads; ++h) {
    const std::vector<double> k = NormedHead(x, weight, (heads + h) * key, key);
    for (int64_t c = 0; c < key; ++c) {
      args.k.row(n)[h * key + c] = static_cast<float>(k[static_cast<size_t>(c)]);
    }
  }
  const int64_t first_value = (heads + kv_heads) * key;
  SiluColumns(x, weight, first_value, values, args.v.row(n));
  SiluColumns(x, weight, first_value + values, heads * args.g.dim(2), args.g.row(n));
}

}  // namespace

absl::Status ReferenceQkvgProjection(Device& device, const QkvgProjectionArgs& args) {
  std::vector<float> x(static_cast<size_t>(args.x.dim(1)));
  for (int64_t n = 0; n < args.x.dim(0); ++n) {
    const RmsNormArgs norm{.x = {args.x.row(n), {1, args.x.dim(1)}},
                           .gain = args.gain,
                           .bias = args.bias,
                           .out = {x.data(), {1, args.x.dim(1)}}};
    if (absl::Status status = ReferenceRmsNorm(device, norm); !status.ok()) return status;
    ProjectRow(args, n, x);
  }
  return absl::OkStatus();
}

}  // namespace tvq
