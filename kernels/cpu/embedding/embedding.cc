// Copies rows of the table; memory moves 2 * N * D values, so scalar loops (which compilers
// vectorise) suffice. The sinusoid's angles are computed in float64: at position 1e6 a float32
// angle would be off by up to 0.03.
#include "kernels/ops/embedding.h"

#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/numbers/bfloat16.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

// Below this many values one thread is done before another would have begun.
constexpr int64_t kOneThread = 65536;
constexpr int64_t kOneThreadSines = 512;

void CopyRow(const EmbeddingArgs& args, int64_t i, float* out) {
  const int64_t width = args.out.dim(1);
  const int64_t start = args.ids.data[i] * width;
  if (args.dtype == DType::kFloat32) {
    std::memcpy(out, static_cast<const float*>(args.table) + start,
                static_cast<size_t>(width) * sizeof(float));
    return;
  }
  if (args.dtype == DType::kInt8) {
    const int8_t* row = static_cast<const int8_t*>(args.table) + start;
    const float scale = args.scales.data[args.ids.data[i]];
    for (int64_t c = 0; c < width; ++c) out[c] = scale * static_cast<float>(row[c]);
    return;
  }
  const BFloat16* row = static_cast<const BFloat16*>(args.table) + start;
  for (int64_t c = 0; c < width; ++c) out[c] = ToFloat(row[c]);
}

void AddSinusoid(const EmbeddingArgs& args, const double* frequencies, int64_t i, float* out) {
  const int64_t half = args.out.dim(1) / 2;
  const double position = static_cast<double>(args.positions.data[i]);
  for (int64_t c = 0; c < half; ++c) {
    const double angle = position * frequencies[c];
    out[c] += args.position_scale * static_cast<float>(std::sin(angle));
    out[half + c] += args.position_scale * static_cast<float>(std::cos(angle));
  }
}

// lam^(-2c/D), c = 0..D/2-1.
const double* Frequencies(CpuDevice& device, double lam, int64_t width) {
  double* frequencies = device.Scratch<double>(0, width / 2);
  for (int64_t c = 0; c < width / 2; ++c) {
    frequencies[c] = std::pow(lam, -2.0 * static_cast<double>(c) / static_cast<double>(width));
  }
  return frequencies;
}

}  // namespace

absl::Status CpuEmbedding(Device& device, const EmbeddingArgs& args) {
  const int64_t rows = args.ids.dim(0);
  const int64_t width = args.out.dim(1);
  const std::span<const int32_t> ids(args.ids.data, static_cast<size_t>(rows));
  if (absl::Status status = CheckIds("Embedding", ids, args.vocab); !status.ok()) return status;
  const bool sinusoid = args.position_scale != 0;
  const double* frequencies =
      sinusoid ? Frequencies(AsCpu(device), args.position_lam, width) : nullptr;
  const auto embed = [&](int64_t i) {
    CopyRow(args, i, args.out.row(i));
    if (sinusoid) AddSinusoid(args, frequencies, i, args.out.row(i));
  };
  if (rows * width < (sinusoid ? kOneThreadSines : kOneThread)) {
    for (int64_t i = 0; i < rows; ++i) embed(i);
  } else {
    AsCpu(device).pool().ParallelFor(rows, embed);
  }
  return absl::OkStatus();
}

}  // namespace tvq
