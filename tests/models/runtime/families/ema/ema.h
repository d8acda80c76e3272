// A family whose state is no attention's: each channel keeps an exponential moving average of what
// passed, s = a s + (1 - a) x, and adds c s to the rows, between MLPs. It computes in host memory.
#ifndef TVQ_TESTS_MODELS_RUNTIME_FAMILIES_EMA_EMA_H_
#define TVQ_TESTS_MODELS_RUNTIME_FAMILIES_EMA_EMA_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/config/config_fields.h"
#include "models/runtime/families/family.h"
#include "models/runtime/layers/mlp/mlp_layer.h"
#include "models/runtime/stack/layer.h"
#include "models/runtime/stack/section_checks.h"
#include "models/runtime/stack/stack.h"
#include "tests/models/runtime/random_weights.h"

namespace tvq {

// "mean" [D] float32.
class EmaParts : public LayerParts {
 public:
  explicit EmaParts(int64_t width) : LayerParts({{.name = "mean", .shape = {width}}}) {}

  absl::Status Check(size_t part, const Read& read) const override {
    if (read.position > 0) return absl::OkStatus();
    const int64_t width = parts()[part].shape[0];
    const auto* const mean = read.memory.At<const float>(part);
    const auto* const found = std::find_if(mean, mean + width, [](float m) { return m != 0; });
    if (found == mean + width) return absl::OkStatus();
    return InvalidElement(read.sections[part], found - mean, "is not 0 before any token");
  }
};

class EmaLayer : public Layer {
 public:
  // What Decode is told of a session.
  struct EmaView {
    float* mean;  // [D]; null of nobody
  };

  // Rows of `width`. The device must outlive it.
  EmaLayer(std::string prefix, int64_t width, Device& device)
      : Layer(std::move(prefix)), width_(width), device_(device), parts_(width) {}

  void Load(WeightLoader& loader) override {
    keep_ = loader.Read(prefix() + "keep", {width_});
    for (float& keep : keep_) keep = 1 / (1 + std::exp(-keep));
    scale_ = loader.Read(prefix() + "scale", {width_});
  }
  void Reserve(int64_t, WorkingMemory&) override {}
  absl::Status CheckDevice() override {
    if (device_.host_memory()) return absl::OkStatus();
    return absl::UnimplementedError("moving averages are computed in host memory alone");
  }
  const LayerParts& parts() const override { return parts_; }
  size_t view_bytes() const override { return sizeof(EmaView); }
  void View(const PartMemory& memory, std::byte* view) const override {
    const EmaView of_session{memory.At<float>(0)};
    std::memcpy(view, &of_session, sizeof(of_session));
  }

  absl::Status Prefill(const LayerState& state, const LayerRows& rows) override {
    for (int64_t i = 0; i < rows.x.dim(0); ++i) Feed(state.memory.At<float>(0), rows.x.row(i));
    return absl::OkStatus();
  }
  absl::Status Decode(const RowStates& states, const LayerRows& rows) override {
    const auto views = states.As<EmaView>();
    for (int64_t i = 0; i < rows.x.dim(0); ++i) Feed(views.data[i].mean, rows.x.row(i));
    return absl::OkStatus();
  }
  LayerRounding rounding() const override { return {}; }

 private:
  void Feed(float* mean, float* x) const {
    if (mean == nullptr) return;
    for (size_t c = 0; c < keep_.size(); ++c) {
      mean[c] = keep_[c] * mean[c] + (1 - keep_[c]) * x[c];
      x[c] += scale_[c] * mean[c];
    }
  }

  const int64_t width_;
  Device& device_;
  const EmaParts parts_;
  std::vector<float> keep_, scale_;  // [D]
};

inline absl::StatusOr<std::unique_ptr<Model>> BuildEma(const Family&, const Config& config,
                                                       WeightSource& weights,
                                                       std::unique_ptr<Tokenizer> tokenizer,
                                                       const LoadOptions& options) {
  StackConfig parsed;
  int64_t blocks = 0;
  ConfigFields fields(config);
  ReadStackConfig(fields, &parsed);
  fields.Int("n_layer", &blocks, 1, 100);
  if (!fields.ok()) return fields.status();
  StackLayers made;
  for (int64_t block = 0; block < blocks; ++block) {
    const std::string prefix = absl::StrCat("layers.", block, ".");
    const int64_t width = parsed.d_model;
    made.layers.push_back(std::make_unique<EmaLayer>(prefix, width, *options.device));
    made.layers.push_back(std::make_unique<MlpLayer>(prefix, width, 2 * width, *options.device));
  }
  return BuildStack(config, parsed, std::move(made), weights, std::move(tokenizer), options);
}

inline Family EmaFamily() { return {"ema", {}, &BuildEma}; }

// A model of it, with random weights.
inline std::unique_ptr<Model> NewEmaModel(const std::shared_ptr<Device>& device) {
  const Config config =
      Config::Parse(R"({"model_type": "ema", "vocab_size": 29, "d_model": 24, "n_layer": 3,
                        "prefill_chunk": 64, "tokenizer": {"type": "ids"}})",
                    "test")
          .value();
  LoadOptions options;
  options.device = device;
  const std::unique_ptr<WeightSource> weights = RandomWeights(3);
  const Family family = EmaFamily();
  return family.build(family, config, *weights, nullptr, options).value();
}

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_RUNTIME_FAMILIES_EMA_EMA_H_
