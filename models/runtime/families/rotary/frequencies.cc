#include "models/runtime/families/rotary/frequencies.h"

#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "models/runtime/config/config_fields.h"

namespace tvq {
namespace {

constexpr double kUsualTheta = 10000, kLargestTheta = 1e30, kLargestFactor = 1e6;

struct Scaling {
  enum class Type : uint8_t { kDefault, kLinear, kLlama3 } type = Type::kDefault;
  double factor = 1, low = 1, high = 4;
  int64_t original = 0;  // positions of the model before it was extended
};

absl::StatusOr<std::string> TypeOf(const Config& rope) {
  if (rope.Has("rope_type")) return rope.String("rope_type");
  if (!rope.Has("type") && rope.Has("factor")) {
    return absl::InvalidArgumentError(absl::StrCat(
        rope.source(), ": rope_scaling has a factor and no rope_type, must have both or neither"));
  }
  return rope.String("type", "default");
}

absl::StatusOr<Scaling> ReadScaling(const Config& rope) {
  const absl::StatusOr<std::string> type = TypeOf(rope);
  if (!type.ok()) return type.status();
  Scaling scaling;
  ConfigFields fields(rope);
  // "mrope": tokens of images have three positions, which are equal for text.
  if (*type == "default" || *type == "mrope") return scaling;
  if (*type != "linear" && *type != "llama3") {
    return absl::InvalidArgumentError(
        absl::StrCat(rope.source(), ": the rope type is ", Quoted(*type),
                     ", must be default, linear or llama3: others are not supported"));
  }
  fields.Number("factor", &scaling.factor, 1, kLargestFactor);
  if (*type == "linear") {
    scaling.type = Scaling::Type::kLinear;
  } else {
    scaling.type = Scaling::Type::kLlama3;
    fields.Number("low_freq_factor", &scaling.low, 1e-6, kLargestFactor);
    fields.Number("high_freq_factor", &scaling.high, 1e-6, kLargestFactor);
    fields.Int("original_max_position_embeddings", &scaling.original, 1, int64_t{1} << 40);
    if (fields.ok() && scaling.high <= scaling.low) {
      return absl::InvalidArgumentError(
          absl::StrCat(rope.source(), ": high_freq_factor is ", scaling.high,
                       ", must be above low_freq_factor, which is ", scaling.low));
    }
  }
  if (!fields.ok()) return fields.status();
  return scaling;
}

// Computes in float32, in the same order as the transformers library.
float Scaled(const Scaling& scaling, float frequency) {
  const auto factor = static_cast<float>(scaling.factor);
  if (scaling.type == Scaling::Type::kDefault) return frequency;
  if (scaling.type == Scaling::Type::kLinear) return frequency / factor;
  const auto original = static_cast<float>(scaling.original);
  const auto low = static_cast<float>(scaling.low), high = static_cast<float>(scaling.high);
  const float wavelength = 2 * std::numbers::pi_v<float> / frequency;
  if (wavelength > original / low) return frequency / factor;
  if (wavelength < original / high) return frequency;
  const float smooth = (original / wavelength - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

absl::StatusOr<std::vector<float>> ReadFrequencies(const Config& config, int64_t head,
                                                   double part) {
  double theta = kUsualTheta;
  ConfigFields fields(config);
  fields.Number("rope_theta", &theta, 1, kLargestTheta, kUsualTheta);
  fields.Number("partial_rotary_factor", &part, 1e-6, 1, part);
  if (!fields.ok()) return fields.status();
  Scaling scaling;
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!config.Has(name)) continue;
    const absl::StatusOr<Config> rope = config.Object(name);
    if (!rope.ok()) return rope.status();
    if (rope->Has("full_attention") || rope->Has("sliding_attention")) {
      return absl::InvalidArgumentError(
          absl::StrCat(config.source(), ": ", name,
                       " has other positions for other layers, must be one for all"));
    }
    ConfigFields own(*rope);
    own.Number("rope_theta", &theta, 1, kLargestTheta, theta);
    own.Number("partial_rotary_factor", &part, 1e-6, 1, part);
    if (!own.ok()) return own.status();
    absl::StatusOr<Scaling> read = ReadScaling(*rope);
    if (!read.ok()) return read.status();
    scaling = *read;
  }
  const auto turned = static_cast<int64_t>(static_cast<double>(head) * part);
  if (turned % 2 != 0 || turned == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.source(), ": rotary positions turn ", turned, " numbers of each head of ", head,
        ", must be an even number above 0 (head_dim, partial_rotary_factor)"));
  }
  std::vector<float> frequencies;
  for (int64_t i = 0; i < turned; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(turned);
    const auto power = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    frequencies.push_back(Scaled(scaling, 1 / power));
  }
  return frequencies;
}

}  // namespace tvq
