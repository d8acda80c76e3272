// Naive float64 loops. Keys lie row-major [P,S,K], half norms [P,S].
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops/attention/head_scores.h"

namespace tvq {
namespace {

double Dot(const float* a, const float* b, int64_t width) {
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

const float* Key(const HeadKeys& keys, int64_t head, int64_t row) {
  return keys.data.as<float>() + (head * keys.rows + row) * keys.width;
}

}  // namespace

absl::Status ReferencePackHeadKeys(Device& device, const PackHeadKeysArgs& args) {
  const Tensor<const float, 3>& keys = args.keys;
  HeadKeys& packed = *args.packed = {keys.dim(0), keys.dim(1), keys.dim(2), {}, {}};
  const int64_t rows = packed.heads * packed.rows;
  const auto bytes = [](int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); };
  absl::StatusOr<Buffer> data = device.Allocate(bytes(keys.size()));
  if (!data.ok()) return data.status();
  packed.data = *std::move(data);
  absl::StatusOr<Buffer> half_norm = device.Allocate(bytes(rows));
  if (!half_norm.ok()) return half_norm.status();
  packed.half_norm = *std::move(half_norm);

  std::copy_n(keys.data, keys.size(), packed.data.as<float>());
  for (int64_t i = 0; i < rows; ++i) {
    const float* key = keys.data + i * packed.width;
    packed.half_norm.as<float>()[i] = static_cast<float>(Dot(key, key, packed.width) / 2);
  }
  return absl::OkStatus();
}

absl::Status ReferenceHeadScores(Device&, const HeadScoresArgs& args) {
  const HeadKeys& keys = *args.keys;
  const int64_t heads = args.x.dim(1);
  const int64_t shared = heads / keys.heads;
  for (int64_t n = 0; n < args.x.dim(0); ++n) {
    for (int64_t h = 0; h < heads; ++h) {
      const float* x = args.x.row(n) + h * keys.width;
      float* out = args.out.row(n) + h * keys.rows;
      for (int64_t s = 0; s < keys.rows; ++s) {
        out[s] = static_cast<float>(Dot(x, Key(keys, h / shared, s), keys.width));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceVqAssign(Device&, const VqAssignArgs& args) {
  const HeadKeys& codebook = *args.codebook;
  for (int64_t n = 0; n < args.k.dim(0); ++n) {
    for (int64_t g = 0; g < codebook.heads; ++g) {
      const float* k = args.k.row(n) + g * codebook.width;
      int32_t best = 0;
      double best_score = -INFINITY;
      const float* half_norm = codebook.half_norm.as<float>() + g * codebook.rows;
      for (int64_t s = 0; s < codebook.rows; ++s) {
        const double score = Dot(k, Key(codebook, g, s), codebook.width) - half_norm[s];
        if (score > best_score) {
          best = static_cast<int32_t>(s);
          best_score = score;
        }
      }
      args.codes.row(n)[g] = best;
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceVqScores(Device& device, const VqScoresArgs& args) {
  absl::Status s = ReferenceVqAssign(device, args.assign);
  if (s.ok()) s = ReferenceHeadScores(device, args.code_scores);
  if (s.ok() && args.scores_positions()) s = ReferenceHeadScores(device, args.position_scores);
  return s;
}

}  // namespace tvq
