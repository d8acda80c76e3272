#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/numbers/bfloat16.h"
#include "kernels/ops/check.h"
#include "kernels/ops/embedding.h"

namespace tvq {
namespace {

double TableAt(const EmbeddingArgs& args, int32_t id, int64_t column) {
  const int64_t index = id * args.out.dim(1) + column;
  switch (args.dtype) {
    case DType::kFloat32:
      return static_cast<const float*>(args.table)[index];
    case DType::kBFloat16:
      return ToFloat(static_cast<const BFloat16*>(args.table)[index]);
    case DType::kInt8:
      return static_cast<double>(static_cast<const int8_t*>(args.table)[index]) *
             args.scales.data[id];
    case DType::kInt4:
      break;
  }
  return 0;
}

double Sinusoid(double position, double lam, int64_t column, int64_t width) {
  const int64_t half = width / 2;
  const double angle = position / std::pow(lam, 2.0 * static_cast<double>(column % half) /
                                                    static_cast<double>(width));
  return column < half ? std::sin(angle) : std::cos(angle);
}

}  // namespace

absl::Status ReferenceEmbedding(Device&, const EmbeddingArgs& args) {
  const int64_t width = args.out.dim(1);
  const std::span<const int32_t> ids(args.ids.data, static_cast<size_t>(args.ids.dim(0)));
  if (absl::Status status = CheckIds("Embedding", ids, args.vocab); !status.ok()) return status;
  for (int64_t i = 0; i < args.ids.dim(0); ++i) {
    for (int64_t c = 0; c < width; ++c) {
      double value = TableAt(args, args.ids.data[i], c);
      if (args.position_scale != 0) {
        value += args.position_scale *
                 Sinusoid(static_cast<double>(args.positions.data[i]), args.position_lam, c, width);
      }
      args.out.row(i)[c] = static_cast<float>(value);
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq
