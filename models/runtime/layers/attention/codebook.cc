#include "models/runtime/layers/attention/codebook.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

// C = c_sum / max(c_count, 0.01), row by row.
absl::Status DivideByCounts(const std::string& name, const std::vector<float>& counts,
                            int64_t width, std::vector<float>& sums) {
  for (size_t row = 0; row < counts.size(); ++row) {
    if (counts[row] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, "[", row, "] is ", counts[row], ", must not be negative"));
    }
    const float divisor = std::max(counts[row], 0.01F);
    float* sum = sums.data() + row * static_cast<size_t>(width);
    for (int64_t i = 0; i < width; ++i) sum[i] /= divisor;
  }
  return tvq::CheckFinite(absl::StrCat(name, " (the codebook, sums over counts)"), sums);
}

}  // namespace

std::vector<float> ReadCodebook(const AttentionConfig& config, const std::string& prefix,
                                WeightLoader& loader) {
  const int64_t heads = config.n_kv_head, codes = config.n_code, key = config.d_k;
  std::vector<float> codebook = loader.Read(prefix + "codebook.sum", {heads, codes, key});
  const std::string count_name = prefix + "codebook.count";
  const std::vector<float> counts = loader.Read(count_name, {heads, codes});
  if (loader.status().ok()) loader.Fail(DivideByCounts(count_name, counts, key, codebook));
  return codebook;
}

HeadKeys LoadCodebook(const AttentionConfig& config, const std::string& prefix,
                      WeightLoader& loader) {
  return loader.PackKeys(ReadCodebook(config, prefix, loader),
                         {config.n_kv_head, config.n_code, config.d_k});
}

}  // namespace tvq
