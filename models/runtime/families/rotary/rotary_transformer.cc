#include "models/runtime/families/rotary/rotary_transformer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/runtime/layers/mlp/gated_mlp_layer.h"

namespace tvq {
namespace {

// What the names of a model's tensors begin with: a model that was saved without its logits has
// nothing there.
std::string PrefixOf(const WeightSource& weights) {
  return weights.Has("embed_tokens.weight") ? "" : "model.";
}

StackLayers MakeLayers(const RotaryConfig& config, const std::string& prefix,
                       const LoadOptions& options) {
  Device& device = *options.device;
  StackLayers made;
  made.state_dtype = StateDType(options);
  auto angles = std::make_unique<AnglesLayer>(config.frequencies, device);
  const AnglesLayer& turned_by = *angles;
  made.layers.push_back(std::move(angles));
  for (int64_t block = 0; block < config.n_layer; ++block) {
    const std::string of_block = absl::StrCat(prefix, "layers.", block, ".");
    made.layers.push_back(std::make_unique<RotaryLayer>(
        of_block, config.attention, turned_by, made.state_dtype, options.draft_rows, device));
    made.layers.push_back(
        std::make_unique<GatedMlpLayer>(of_block,
                                        GatedMlpLayer::Config{.width = config.d_model,
                                                              .inner = config.d_ff,
                                                              .epsilon = config.norm_epsilon,
                                                              .biases = config.mlp_biases},
                                        device));
  }
  return made;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> BuildRotaryTransformer(const RotaryFamily& family,
                                                              const Config& config,
                                                              WeightSource& weights,
                                                              std::unique_ptr<Tokenizer> tokenizer,
                                                              const LoadOptions& options) {
  absl::StatusOr<RotaryConfig> parsed = ParseRotaryConfig(config, family);
  if (!parsed.ok()) return parsed.status();
  if (absl::Status s = CheckStateDType(options); !s.ok()) return s;
  const int64_t longest = LongestContext(parsed->common, options, /*states_grow=*/true);
  if (parsed->window > 0 && longest > parsed->window) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.source(), ": sliding_window is ", parsed->window, " and contexts may have ", longest,
        " tokens; models whose layers look back no further than a window are served with contexts "
        "of that length: --max-model-len ",
        parsed->window));
  }
  const std::string prefix = PrefixOf(weights);
  parsed->tensors = {.embedding = prefix + "embed_tokens.weight",
                     .norm = prefix + "norm",
                     .logits = "lm_head",
                     .biases = false};
  StackLayers layers = MakeLayers(*parsed, prefix, options);
  return BuildStack(config, *std::move(parsed), std::move(layers), weights, std::move(tokenizer),
                    options);
}

bool IsSpareTensor(std::string_view name) {
  return name.ends_with("rotary_emb.inv_freq") || name == "lm_head.weight";
}

}  // namespace tvq
