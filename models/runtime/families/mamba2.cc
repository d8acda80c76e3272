// Mamba-2 (Dao, Gu 2024).
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/config/config_fields.h"
#include "models/runtime/families/family.h"
#include "models/runtime/layers/recurrent/convolved/mamba_layer.h"

namespace tvq {
namespace {

struct Mamba2Config : StackConfig {
  int64_t n_layer = 0;
  MambaLayer::Config layer;
};

void ReadShape(ConfigFields& fields, MambaLayer::Config& layer) {
  MambaShape& shape = layer.shape;
  int64_t expand = 0;
  fields.Int("hidden_size", &layer.width, 1, kMaxDim);
  fields.Int("num_heads", &shape.heads, 1, kMaxDim);
  fields.Int("head_dim", &shape.value, 1, kMaxDim);
  fields.Int("state_size", &shape.key, 1, kMaxDim);
  fields.Int("n_groups", &shape.groups, 1, kMaxDim, 8);
  fields.Int("expand", &expand, 1, kMaxDim, 2);
  fields.Int("conv_kernel", &layer.taps, 2, kMaxDim, 4);
  if (!fields.ok()) return;
  fields.Require(shape.heads % shape.groups == 0, "num_heads", shape.heads,
                 absl::StrCat("be a multiple of n_groups, which is ", shape.groups));
  fields.Require(shape.inner() == expand * layer.width, "num_heads", shape.heads,
                 absl::StrCat("be ", expand, " * ", layer.width, " / ", shape.value,
                              " (expand * hidden_size / head_dim)"));
}

void ReadOptions(ConfigFields& fields, MambaLayer::Config& layer) {
  double epsilon = 0;
  fields.Number("layer_norm_epsilon", &epsilon, 1e-12, 1, 1e-5);
  layer.epsilon = static_cast<float>(epsilon);
  fields.Bool("use_bias", &layer.biases);
  fields.Bool("use_conv_bias", &layer.convolution_bias, true);
  fields.Choice("hidden_act", {"silu"});
  fields.Refuse("quantization_config", "such weights are not supported");
}

absl::Status ReadStepLimits(const Config& config, MambaLayer::Config& layer) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  absl::StatusOr<std::vector<double>> limits = config.Numbers("time_step_limit", 0, kInfinity);
  if (!limits.ok()) return limits.status();
  if (limits->empty()) *limits = {0, kInfinity};
  if (limits->size() != 2 || (*limits)[0] > (*limits)[1]) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.source(), ": time_step_limit must be two numbers, the first not above the second"));
  }
  // A limit above all float32 numbers is none.
  const auto limit = [](double value) {
    return value > std::numeric_limits<float>::max() ? std::numeric_limits<float>::infinity()
                                                     : static_cast<float>(value);
  };
  layer.least_step = limit((*limits)[0]);
  layer.most_step = limit((*limits)[1]);
  return absl::OkStatus();
}

absl::StatusOr<Mamba2Config> ParseMamba2(const Config& config, const WeightSource& weights) {
  Mamba2Config c;
  ConfigFields fields(config);
  fields.Common(&c.common);
  fields.Int("num_hidden_layers", &c.n_layer, 1, kMaxLayers);
  fields.Bool("tie_word_embeddings", &c.tie_word_embeddings);
  ReadShape(fields, c.layer);
  ReadOptions(fields, c.layer);
  const MambaShape& shape = c.layer.shape;
  fields.LimitSize("prefill_chunk, num_heads, head_dim, n_groups and state_size", c.rows(),
                   2 * shape.projected());
  fields.LimitSize("num_heads, head_dim and state_size", shape.inner(), shape.key);
  fields.LimitSize("conv_kernel, num_heads, head_dim, n_groups and state_size", c.layer.taps,
                   shape.convolved());
  if (!fields.ok()) return fields.status();
  if (absl::Status s = ReadStepLimits(config, c.layer); !s.ok()) return s;
  c.d_model = c.layer.width;
  c.output_norm = true;
  c.norm = Norm::kRms;
  c.norm_epsilon = c.layer.epsilon;
  constexpr const char* kOther = "backbone.embedding.weight";
  c.tensors = {.embedding = weights.Has(kOther) ? kOther : "backbone.embeddings.weight",
               .norm = "backbone.norm_f",
               .logits = "lm_head",
               .norm_bias = false,
               .logits_bias = false};
  return c;
}

absl::StatusOr<std::unique_ptr<Model>> BuildMamba2(const Family&, const Config& config,
                                                   WeightSource& weights,
                                                   std::unique_ptr<Tokenizer> tokenizer,
                                                   const LoadOptions& options) {
  absl::StatusOr<Mamba2Config> parsed = ParseMamba2(config, weights);
  if (!parsed.ok()) return parsed.status();
  StackLayers made;
  for (int64_t block = 0; block < parsed->n_layer; ++block) {
    made.layers.push_back(std::make_unique<MambaLayer>(absl::StrCat("backbone.layers.", block, "."),
                                                       parsed->layer, options.draft_rows,
                                                       *options.device));
  }
  return BuildRecurrent(config, *parsed, std::move(made), weights, std::move(tokenizer), options);
}

}  // namespace

Family Mamba2Family() { return {"mamba2", {}, &BuildMamba2, &IsTiedLogits}; }

}  // namespace tvq
