// RWKV-7 (Peng et al. 2025), in the directories of the flash-linear-attention library.
#include <algorithm>
#include <cmath>
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

// The rank of a low-rank projection, if config.json does not say it: `factor` times the root of the
// width, to the nearest multiple of 32.
int64_t UsualRank(int64_t width, double factor) {
  const double rank = factor * std::sqrt(static_cast<double>(width));
  return std::max<int64_t>(32, static_cast<int64_t>(std::nearbyint(rank / 32)) * 32);
}

void ReadBlock(ConfigFields& fields, RwkvConfig& block) {
  fields.Int("hidden_size", &block.width, 1, kMaxDim);
  int64_t heads = 0;
  fields.Int("num_heads", &heads, 0, kMaxDim, 0);
  fields.Int("head_dim", &block.head, 1, kMaxDim,
             heads > 0 ? std::max<int64_t>(1, block.width / heads) : 64);
  if (!fields.ok()) return;
  fields.Require(heads == 0 || heads * block.head == block.width, "num_heads", heads,
                 absl::StrCat("be hidden_size / head_dim, of ", block.width, " and ", block.head));
  fields.Require(block.width % block.head == 0, "hidden_size", block.width,
                 absl::StrCat("be a multiple of head_dim, which is ", block.head));
  fields.Int("intermediate_size", &block.inner, 1, kMaxDim, UsualInner(fields, block.width));
  const double part = static_cast<double>(block.head) / 64;
  const auto rank = [&](const char* name, double factor, int64_t* value) {
    fields.Int(name, value, 1, kMaxDim, UsualRank(block.width, factor));
  };
  rank("decay_low_rank_dim", 2.5 * part, &block.decay_rank);
  rank("a_low_rank_dim", 2.5 * part, &block.rate_rank);
  rank("v_low_rank_dim", 1.7 * part, &block.value_rank);
  rank("gate_low_rank_dim", 5, &block.gate_rank);
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
  fields.LimitSize("prefill_chunk, hidden_size and the low ranks", c.rows(),
                   20 * block.width + block.largest_rank());
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
