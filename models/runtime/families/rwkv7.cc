// RWKV-7 (Peng et al. 2025), in the directories of the flash-linear-attention library.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/config/config_fields.h"
#include "models/runtime/families/family.h"
#include "models/runtime/layers/norm/norm_layer.h"
#include "models/runtime/layers/recurrent/rwkv/channel_mix_layer.h"
#include "models/runtime/layers/recurrent/rwkv/time_mix_layer.h"

namespace tvq {
namespace {

struct Rwkv7Config : StackConfig {
  int64_t n_layer = 0;
  bool norm_first = true;  // a norm ahead of the first block
  RwkvConfig block;
};

// The width inside the channel mixing, if config.json does not say it: a multiple of 32.
int64_t UsualInner(ConfigFields& fields, int64_t width) {
  double ratio = 4;
  fields.Number("hidden_ratio", &ratio, 1e-3, 1e3, 4);
  return (static_cast<int64_t>(static_cast<double>(width) * ratio) + 31) / 32 * 32;
}

void ReadBlock(ConfigFields& fields, RwkvConfig& block) {
  fields.Int("hidden_size", &block.width, 1, kMaxDim);
  fields.Int("head_dim", &block.head, 1, kMaxDim, 64);
  if (!fields.ok()) return;
  fields.Require(block.width % block.head == 0, "hidden_size", block.width,
                 absl::StrCat("be a multiple of head_dim, which is ", block.head));
  fields.Int("intermediate_size", &block.inner, 1, kMaxDim, UsualInner(fields, block.width));
  fields.Int("decay_low_rank_dim", &block.decay_rank, 1, kMaxDim);
  fields.Int("a_low_rank_dim", &block.rate_rank, 1, kMaxDim);
  fields.Int("v_low_rank_dim", &block.value_rank, 1, kMaxDim);
  fields.Int("gate_low_rank_dim", &block.gate_rank, 1, kMaxDim);
  fields.Bool("norm_bias", &block.norm_biases, true);
  double epsilon = 0;
  fields.Number("norm_eps", &epsilon, 1e-12, 1, 1e-5);
  block.epsilon = static_cast<float>(epsilon);
  fields.Choice("hidden_act", {"sqrelu"});
  fields.Refuse("attn", "models with layers of softmax attention are not supported");
  fields.Refuse("quantization_config", "such weights are not supported");
}

// Values have the width of the rows: value_dim may say so, once or for each layer.
absl::Status CheckValueWidths(const Config& config, int64_t width) {
  const absl::StatusOr<std::vector<int32_t>> widths = config.Ids("value_dim", kMaxDim + 1);
  if (!widths.ok()) return widths.status();
  const auto other = std::ranges::find_if(*widths, [&](int32_t w) { return w != width; });
  if (other == widths->end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(config.source(), ": value_dim is ", *other,
                                                 ", must be hidden_size, which is ", width));
}

absl::StatusOr<Rwkv7Config> ParseRwkv7(const Config& config) {
  Rwkv7Config c;
  ConfigFields fields(config);
  fields.Common(&c.common);
  fields.Int("num_hidden_layers", &c.n_layer, 1, kMaxLayers);
  fields.Bool("norm_first", &c.norm_first, true);
  fields.Bool("tie_word_embeddings", &c.tie_word_embeddings);
  ReadBlock(fields, c.block);
  const RwkvConfig& block = c.block;
  fields.LimitSize("prefill_chunk and hidden_size", c.rows(), 20 * block.width);
  fields.LimitSize("prefill_chunk and intermediate_size", c.rows(), block.inner);
  fields.LimitSize("hidden_size and head_dim", block.width, block.head);
  if (!fields.ok()) return fields.status();
  if (absl::Status s = CheckValueWidths(config, block.width); !s.ok()) return s;
  c.d_model = block.width;
  c.output_norm = true;
  c.norm = Norm::kLayer;
  c.norm_epsilon = block.epsilon;
  c.tensors = {.embedding = "model.embeddings.weight",
               .norm = "model.norm",
               .logits = "lm_head",
               .norm_bias = block.norm_biases,
               .logits_bias = false};
  return c;
}

StackLayers MakeLayers(const Rwkv7Config& config, const LoadOptions& options) {
  Device& device = *options.device;
  StackLayers made;
  if (config.norm_first) {
    made.layers.push_back(
        std::make_unique<NormLayer>("model.layers.0.pre_norm", config.block.norm(), device));
  }
  const TimeMixLayer* first = nullptr;
  for (int64_t block = 0; block < config.n_layer; ++block) {
    const std::string prefix = absl::StrCat("model.layers.", block, ".");
    auto time_mix = std::make_unique<TimeMixLayer>(prefix + "attn.", config.block, first,
                                                   options.draft_rows, device);
    if (first == nullptr) first = time_mix.get();
    made.layers.push_back(std::move(time_mix));
    made.layers.push_back(std::make_unique<ChannelMixLayer>(prefix + "ffn.", config.block,
                                                            options.draft_rows, device));
  }
  return made;
}

absl::StatusOr<std::unique_ptr<Model>> BuildRwkv7(const Family&, const Config& config,
                                                  WeightSource& weights,
                                                  std::unique_ptr<Tokenizer> tokenizer,
                                                  const LoadOptions& options) {
  absl::StatusOr<Rwkv7Config> parsed = ParseRwkv7(config);
  if (!parsed.ok()) return parsed.status();
  return BuildRecurrent(config, *parsed, MakeLayers(*parsed, options), weights,
                        std::move(tokenizer), options);
}

}  // namespace

Family Rwkv7Family() { return {"rwkv7", {}, &BuildRwkv7, &IsTiedLogits}; }

}  // namespace tvq
