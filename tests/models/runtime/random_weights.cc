#include "tests/models/runtime/random_weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "models/runtime/digest.h"

namespace tvq {
namespace {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

uint64_t StreamKey(uint64_t seed, std::string_view name, std::span<const int64_t> shape) {
  uint64_t key = Mix(seed + kGolden);
  for (const char c : name) key = Mix(key + kGolden + static_cast<unsigned char>(c));
  for (const int64_t size : shape) key = Mix(key + kGolden + static_cast<uint64_t>(size));
  return key;
}

void FillNormal(uint64_t key, float deviation, std::span<float> values) {
  // Four uniform integers below 2^16: mean of the sum 2 * (2^16 - 1), variance (2^32 - 1) / 3.
  const float scale = deviation * static_cast<float>(std::sqrt(3.0) / 65536.0);
  constexpr int32_t kMean = 2 * 65535;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = Mix(key + kGolden * (i + 1));
    const auto sum = static_cast<int32_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) +
                                          ((bits >> 32) & 0xffff) + (bits >> 48));
    values[i] = static_cast<float>(sum - kMean) * scale;
  }
}

void Fill(uint64_t seed, std::string_view name, std::span<const int64_t> shape,
          std::span<float> values) {
  const auto ends_with = [&](std::string_view end) { return name.ends_with(end); };
  const double last = shape.empty() ? 1.0 : static_cast<double>(shape.back());
  if (ends_with("norm.weight") || ends_with("codebook.count")) {
    std::fill(values.begin(), values.end(), 1.0f);
  } else if (ends_with(".bias")) {
    std::fill(values.begin(), values.end(), 0.0f);
  } else {
    double deviation = 1.0 / std::sqrt(std::max(last, 1.0));
    if (ends_with("codebook.sum")) deviation = std::pow(last, -0.25);
    if (ends_with(".features")) deviation = 1;
    if (ends_with(".u") || ends_with(".w") || name == "position.scale") deviation = 0.02;
    FillNormal(StreamKey(seed, name, shape), static_cast<float>(deviation), values);
  }
}

class RandomSource : public WeightSource {
 public:
  explicit RandomSource(uint64_t seed) : seed_(seed) {}

  absl::StatusOr<HostTensor> Get(std::string_view name, std::span<const int64_t> shape) override {
    HostTensor tensor = {nullptr, HostDType::kF32, {shape.begin(), shape.end()}};
    const auto count = static_cast<size_t>(tensor.ElementCount());
    absl::MutexLock lock(&mutex_);
    std::unique_ptr<float[]>& values = tensors_[{std::string(name), tensor.shape}];
    if (values == nullptr) {
      values = std::make_unique_for_overwrite<float[]>(count);
      Fill(seed_, name, shape, {values.get(), count});
    }
    tensor.data = values.get();
    return tensor;
  }

  bool Has(std::string_view) const override { return true; }

  // The seed says it all; shapes follow from the config.
  std::string Digest() const override {
    return tvq::Digest().Add("random").Add(static_cast<int64_t>(seed_)).Hex();
  }

 private:
  const uint64_t seed_;
  absl::Mutex mutex_;
  std::map<std::pair<std::string, std::vector<int64_t>>, std::unique_ptr<float[]>> tensors_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<WeightSource> RandomWeights(uint64_t seed) {
  return std::make_unique<RandomSource>(seed);
}

}  // namespace tvq
