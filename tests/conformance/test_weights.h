// Weights for conformance tests: unlike RandomWeights, no gain is 1 and no bias 0, so that a
// forgotten term shows.
#ifndef TVQ_TESTS_CONFORMANCE_TEST_WEIGHTS_H_
#define TVQ_TESTS_CONFORMANCE_TEST_WEIGHTS_H_

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/runtime/weights.h"

namespace tvq::conformance {

class TestWeights : public WeightSource {
 public:
  // `unused_code`: the codebooks hold a code that was never used, far from all keys and queries.
  explicit TestWeights(uint64_t seed, bool unused_code = true)
      : seed_(seed), unused_code_(unused_code) {}

  absl::StatusOr<HostTensor> Get(std::string_view name, std::span<const int64_t> shape) override {
    HostTensor tensor;
    tensor.shape.assign(shape.begin(), shape.end());
    std::vector<float>& values = tensors_[std::string(name)];
    if (values.empty()) values = Draw(std::string(name), tensor);
    tensor.data = values.data();
    return tensor;
  }

  bool Has(std::string_view) const override { return true; }
  std::string Digest() const override { return "test " + std::to_string(seed_); }

 private:
  std::vector<float> Draw(const std::string& name, const HostTensor& tensor) const {
    std::seed_seq seeds(name.begin(), name.end());
    std::mt19937_64 random(seeds);
    random.discard(seed_);
    std::normal_distribution<float> normal;
    const auto ends_with = [&](std::string_view end) { return name.ends_with(end); };
    float mean = 0, deviation = 1.0F / std::sqrt(static_cast<float>(tensor.shape.back()));
    if (ends_with("norm.weight")) mean = 1, deviation = 0.3F;
    if (ends_with(".bias")) deviation = 0.3F;
    if (ends_with(".u") || ends_with(".w") || ends_with("scale")) deviation = 0.5F;
    if (ends_with("codebook.sum"))
      deviation = std::pow(static_cast<float>(tensor.shape.back()), -0.25F);
    if (name.starts_with("embed") || ends_with(".features")) deviation = 1;
    if (ends_with("conversion.assign") || ends_with("conversion.score")) deviation = 1;
    std::vector<float> values(static_cast<size_t>(tensor.ElementCount()));
    for (float& v : values) v = mean + deviation * normal(random);
    if (ends_with("codebook.count")) {
      // One code unused (the clamp at 0.01 makes it huge, hence far), the others around 1.
      for (float& v : values) v = 0.5F + std::abs(v);
      if (unused_code_ && values.size() > 3) values[3] = 0;
    }
    return values;
  }

  const uint64_t seed_;
  const bool unused_code_;
  std::map<std::string, std::vector<float>> tensors_;
};

}  // namespace tvq::conformance

#endif  // TVQ_TESTS_CONFORMANCE_TEST_WEIGHTS_H_
