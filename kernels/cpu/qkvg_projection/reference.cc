#include "kernels/cpu/linear/reference.h"

#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops/qkvg_projection.h"

namespace tvq {
namespace {

// The head whose weight rows start at `first`: x~ W, or rms_per_head(x~ W) * t.
std::vector<double> Head(const QkvgProjectionArgs& args, const std::vector<float>& x, int64_t first,
                         int64_t width) {
  std::vector<double> head(static_cast<size_t>(width));
  double squares = 0;
  for (size_t c = 0; c < head.size(); ++c) {
    head[c] = ReferenceDot(x.data(), *args.weight, first + static_cast<int64_t>(c));
    squares += head[c] * head[c];
  }
  if (args.plain_heads) return head;
  const double w = static_cast<double>(width);
  const double factor = std::pow(w, -0.25) / std::sqrt(squares / w + kRmsNormEpsilon);
  for (double& value : head) value *= factor;
  return head;
}

void ProjectColumns(const std::vector<float>& x, const LinearWeight& weight, int64_t first,
                    int64_t count, Activation activation, float* out) {
  for (int64_t c = 0; c < count; ++c) {
    const double y = ReferenceDot(x.data(), weight, first + c);
    out[c] = static_cast<float>(ReferenceActivation(activation, y));
  }
}

void ProjectRow(const QkvgProjectionArgs& args, int64_t n, const std::vector<float>& x) {
  const int64_t heads = args.q_u.dim(1);
  const int64_t key = args.q_u.dim(2);
  const int64_t kv_heads = args.k.dim(1);
  const int64_t values = kv_heads * args.v.dim(2);
  for (int64_t h = 0; h < heads; ++h) {
    const std::vector<double> q = Head(args, x, h * key, key);
    for (int64_t c = 0; c < key; ++c) {
      const double qc = q[static_cast<size_t>(c)];
      const double u = args.biased() ? args.u.row(h)[c] : 0.0F;
      args.q_u.row(n)[h * key + c] = static_cast<float>(qc + u);
      if (!args.biased()) continue;
      args.q_w.row(n)[h * key + c] = static_cast<float>(qc + args.w.row(h)[c]);
    }
  }
  for (int64_t h = 0; h < kv_heads; ++h) {
    const std::vector<double> k = Head(args, x, (heads + h) * key, key);
    for (int64_t c = 0; c < key; ++c) {
      args.k.row(n)[h * key + c] = static_cast<float>(k[static_cast<size_t>(c)]);
    }
  }
  const int64_t first_value = (heads + kv_heads) * key;
  ProjectColumns(x, *args.weight, first_value, values, args.value_activation, args.v.row(n));
  if (!args.gated()) return;
  ProjectColumns(x, *args.weight, first_value + values, heads * args.g.dim(2), Activation::kSilu,
                 args.g.row(n));
}

absl::Status NormRow(Device& device, const QkvgProjectionArgs& args, int64_t n,
                     std::vector<float>& out) {
  const int64_t width = args.x.dim(1);
  const Matrix<const float> x{args.x.row(n), {1, width}};
  const Matrix<float> normed{out.data(), {1, width}};
  return ReferenceNormRows(device, {args.norm, x, args.gain, args.bias, normed});
}

}  // namespace

absl::Status ReferenceQkvgProjection(Device& device, const QkvgProjectionArgs& args) {
  std::vector<float> x(static_cast<size_t>(args.x.dim(1)));
  for (int64_t n = 0; n < args.x.dim(0); ++n) {
    if (absl::Status status = NormRow(device, args, n, x); !status.ok()) return status;
    ProjectRow(args, n, x);
  }
  return absl::OkStatus();
}

}  // namespace tvq
