#include "models/runtime/families/rotary/rotary_transformer.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/runtime/families/rotary/conversion.h"
#include "models/runtime/layers/attention/ring/growing_layer.h"
#include "models/runtime/layers/attention/ring/ring_layer.h"
#include "models/runtime/layers/attention/rotary/rotary_layer.h"
#include "models/runtime/layers/mlp/gated_mlp_layer.h"

namespace tvq {
namespace {

// The prefix of the names of a model's tensors. A model that was saved without its logits has none.
std::string PrefixOf(const WeightSource& weights) {
  return weights.Has("embed_tokens.weight") ? "" : "model.";
}

// Makes the layers of a model, which run in the order in which they are added.
class LayerMaker {
 public:
  LayerMaker(const RotaryConfig& config, const std::string& prefix, const LoadOptions& options)
      : config_(config), prefix_(prefix), options_(options), device_(*options.device) {
    made_.state_dtype = StateDType(options);
  }

  StackLayers Original() && {
    const auto& angles = Add<AnglesLayer>(config_.frequencies, /*exact=*/false, device_);
    for (int64_t block = 0; block < config_.n_layer; ++block) {
      if (!config_.delta_layers.empty() && config_.delta_layers[static_cast<size_t>(block)]) {
        Add<GatedDeltaLayer>(Block(block), config_.delta, options_.draft_rows, device_);
      } else {
        Add<RotaryLayer>(Block(block), config_.attention, angles, made_.state_dtype,
                         options_.draft_rows, device_);
      }
      AddMlp(block);
    }
    return std::move(made_);
  }

  // The layers of a converted model.
  StackLayers Converted(const Conversion& conversion) && {
    made_.key_tap = std::make_shared<KeyTap>();
    made_.reads = options_.reads;
    if (options_.reads.skip_mass > 0) made_.row_reads = std::make_shared<RowReads>(device_);
    const auto& angles = Add<AnglesLayer>(config_.frequencies, /*exact=*/true, device_);
    std::map<int64_t, const FarAnglesLayer*> far;
    for (const int64_t ring : conversion.Rings()) {
      far[ring] =
          &Add<FarAnglesLayer>(config_.frequencies, ring, conversion.trained_context, device_);
    }
    const auto memory = std::make_shared<RingProjectionLayer::Memory>();
    int64_t number = 0;
    for (int64_t block = 0; block < config_.n_layer; ++block) {
      const auto& groups = conversion.groups[static_cast<size_t>(block)];
      const auto& projection = Add<RingProjectionLayer>(
          Block(block), RingAttentionConfig{config_.attention, conversion.codes, groups}, memory,
          device_);
      for (size_t i = 0; i < groups.size(); ++i) {
        const auto& [ring, heads, grows] = groups[i];
        if (grows) {
          Add<GrowingLayer>(
              absl::StrCat(Block(block), "pages."),
              GrowingLayer::Parts{projection, i, angles, *far[ring], conversion.trained_context},
              made_.state_dtype, options_.draft_rows, device_);
          continue;
        }
        Add<RingLayer>(absl::StrCat(Block(block), "ring", ring, "."),
                       RingLayer::Parts{projection, i, angles, *far[ring], made_.key_tap, number++,
                                        made_.row_reads},
                       made_.state_dtype, options_.reads, options_.draft_rows, device_);
      }
      AddMlp(block);
    }
    return std::move(made_);
  }

 private:
  template <typename T, typename... Args>
  const T& Add(Args&&... args) {
    auto layer = std::make_unique<T>(std::forward<Args>(args)...);
    const T& added = *layer;
    made_.layers.push_back(std::move(layer));
    return added;
  }

  std::string Block(int64_t block) const { return absl::StrCat(prefix_, "layers.", block, "."); }

  void AddMlp(int64_t block) {
    Add<GatedMlpLayer>(Block(block),
                       GatedMlpLayer::Config{.width = config_.d_model,
                                             .inner = config_.d_ff,
                                             .epsilon = config_.norm_epsilon,
                                             .biases = config_.mlp_biases,
                                             .gain_offset = config_.norm_gain_offset},
                       device_);
  }

  const RotaryConfig& config_;
  const std::string& prefix_;
  const LoadOptions& options_;
  Device& device_;
  StackLayers made_;
};

absl::Status CheckWindow(const Config& config, const RotaryConfig& parsed,
                         const LoadOptions& options) {
  const int64_t longest = LongestContext(parsed.common, options, /*states_grow=*/true);
  if (parsed.window == 0 || longest <= parsed.window) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      config.source(), ": sliding_window is ", parsed.window, " and contexts may have ", longest,
      " tokens; models whose layers look back no further than a window are served with contexts "
      "of that length: --max-model-len ",
      parsed.window));
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
  std::optional<Conversion> conversion;
  if (config.Has("conversion")) {
    absl::StatusOr<Conversion> read = ReadConversion(config, *parsed);
    if (!read.ok()) return read.status();
    conversion = *std::move(read);
    // The context that the model was trained with no longer limits contexts.
    parsed->common.max_position = 0;
  }
  if (absl::Status s = CheckWindow(config, *parsed, options); !s.ok()) return s;
  const std::string prefix = PrefixOf(weights);
  parsed->tensors = {.embedding = prefix + "embed_tokens.weight",
                     .norm = prefix + "norm",
                     .logits = "lm_head",
                     .norm_bias = false,
                     .logits_bias = false};
  LayerMaker maker(*parsed, prefix, options);
  StackLayers layers =
      conversion ? std::move(maker).Converted(*conversion) : std::move(maker).Original();
  return BuildStack(config, *std::move(parsed), std::move(layers), weights, std::move(tokenizer),
                    options);
}

bool IsSpareTensor(std::string_view name) {
  return name.ends_with("rotary_emb.inv_freq") || IsTiedLogits(name);
}

}  // namespace tvq
