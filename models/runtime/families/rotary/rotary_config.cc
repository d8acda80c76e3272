#include "models/runtime/families/rotary/rotary_config.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "kernels/ops/attention/softmax_attention.h"
#include "models/runtime/config/config_fields.h"
#include "models/runtime/families/rotary/frequencies.h"

namespace tvq {
namespace {

// Refuses fields of other models that change what is computed. A field that is null, a switch that
// is off and a factor of 1 are accepted.
void RefuseOthers(ConfigFields& fields) {
  for (const char* name : {"quantization_config",
                           "num_local_experts",
                           "num_experts",
                           "n_routed_experts",
                           "attn_logit_softcapping",
                           "final_logit_softcapping",
                           "query_pre_attn_scalar",
                           "clip_qkv",
                           "attention_chunk_size",
                           "no_rope_layers",
                           "no_rope_layer_interval",
                           "scale_emb",
                           "scale_depth",
                           "dim_model_base",
                           "sparse_attention",
                           "layer_scale",
                           "kv_lora_rank",
                           "q_lora_rank",
                           "vision_config",
                           "audio_config"}) {
    fields.Refuse(name, "it changes what is computed, and models with it are not supported");
  }
  for (const char* name : {"rope_interleaved", "use_bidirectional_attention", "alibi",
                           "parallel_residual", "use_parallel_residual", "use_qk_norm",
                           "qk_layernorm", "add_cross_attention", "is_encoder_decoder"}) {
    bool on = false;
    fields.Bool(name, &on);
    fields.Require(!on, name, on, "be false: models with it are not supported");
  }
  // Some models are trained without a causal mask, to make vectors of texts.
  fields.Require(fields.config().Bool("is_causal", true).value_or(true), "is_causal", 0,
                 "be true: models that look ahead are not supported");
  for (const char* name : {"embedding_multiplier", "attention_multiplier", "residual_multiplier",
                           "logits_scaling", "logit_scale"}) {
    double factor = 1;
    fields.Number(name, &factor, 1, 1, 1);
  }
}

void ReadShape(ConfigFields& fields, const RotaryFamily& family, RotaryConfig& c) {
  RotaryAttentionConfig& attention = c.attention;
  fields.Int("hidden_size", &c.d_model, 1, kMaxDim);
  fields.Int("intermediate_size", &c.d_ff, 1, kMaxDim);
  fields.Int("num_hidden_layers", &c.n_layer, 1, kMaxLayers);
  fields.Int("num_attention_heads", &attention.heads, 1, kMaxDim);
  // If the field is null, the number is that of query heads; if it is absent, the family's default.
  const bool kv_heads_are_left_out =
      family.kv_heads > 0 && !fields.config().Null("num_key_value_heads");
  fields.Int("num_key_value_heads", &attention.kv_heads, 1, kMaxDim,
             kv_heads_are_left_out ? family.kv_heads : attention.heads);
  if (!fields.ok()) return;
  fields.Require(attention.heads % attention.kv_heads == 0, "num_key_value_heads",
                 attention.kv_heads,
                 absl::StrCat("divide num_attention_heads, which is ", attention.heads));
  const bool given = fields.config().Has("head_dim");
  if (!given && family.head == 0) {
    fields.Require(c.d_model % attention.heads == 0, "hidden_size", c.d_model,
                   absl::StrCat("be a multiple of num_attention_heads, which is ", attention.heads,
                                ", or head_dim be there"));
  }
  fields.Int("head_dim", &attention.head, 1, kMaxDim,
             family.head > 0 ? family.head : std::max<int64_t>(1, c.d_model / attention.heads));
}

void ReadOptions(ConfigFields& fields, const RotaryFamily& family, RotaryConfig& c) {
  using Biases = RotaryFamily::Biases;
  RotaryAttentionConfig& attention = c.attention;
  double epsilon = 0;
  fields.Number("rms_norm_eps", &epsilon, 1e-12, 1, 1e-6);
  attention.epsilon = c.norm_epsilon = static_cast<float>(epsilon);
  attention.head_norms = family.head_norms;
  attention.gain_offset = c.norm_gain_offset = family.gain_offset;
  if (family.delta_layers) fields.Bool("attn_output_gate", &attention.output_gate, true);
  fields.Choice("hidden_act", {"silu"});
  fields.Bool("tie_word_embeddings", &c.tie_word_embeddings);
  bool biases = family.biases == Biases::kQueriesKeysValues;
  if (family.biases == Biases::kField) {
    fields.Bool("attention_bias", &biases);
    attention.output_bias = biases;
  }
  attention.qkv_biases = biases;
  if (family.mlp_bias_field) fields.Bool("mlp_bias", &c.mlp_biases);
}

// Reads the sliding window. Windows are not supported, but contexts no longer than one are.
void ReadWindow(ConfigFields& fields, const RotaryFamily& family, RotaryConfig& c) {
  using Window = RotaryFamily::Window;
  if (family.window == Window::kNone) return;
  bool on = family.window == Window::kField;
  if (family.window == Window::kSwitch) fields.Bool("use_sliding_window", &on);
  // A null means that there is no window; an absent field has the family's default.
  if (on && fields.config().Null("sliding_window")) on = false;
  if (on) fields.Int("sliding_window", &c.window, 1, int64_t{1} << 40, family.sliding_window);
}

// Which layers have the gated delta rule: those of the type linear_attention, or, without
// layer_types, all but each full_attention_interval-th.
absl::Status ReadLayerTypes(const Config& config, const RotaryFamily& family, RotaryConfig& c) {
  const absl::StatusOr<std::vector<std::string>> types = config.Strings("layer_types");
  if (!types.ok()) return types.status();
  for (const std::string& type : *types) {
    const bool delta = family.delta_layers && type == "linear_attention";
    if (!delta && type != "full_attention") {
      return absl::InvalidArgumentError(absl::StrCat(
          config.source(), ": layer_types has ", Quoted(type), ", must be full_attention",
          family.delta_layers ? " or linear_attention" : " throughout"));
    }
    if (family.delta_layers) c.delta_layers.push_back(delta);
  }
  if (!family.delta_layers || std::ssize(c.delta_layers) == c.n_layer) return absl::OkStatus();
  if (!types->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(config.source(), ": layer_types has ",
                                                   types->size(), " entries, must have ", c.n_layer,
                                                   ", one for each layer"));
  }
  const absl::StatusOr<int64_t> interval = config.Int("full_attention_interval", 1, kMaxLayers, 4);
  if (!interval.ok()) return interval.status();
  for (int64_t l = 0; l < c.n_layer; ++l) c.delta_layers.push_back((l + 1) % *interval != 0);
  return absl::OkStatus();
}

void ReadDelta(ConfigFields& fields, RotaryConfig& c) {
  GatedDeltaShape& shape = c.delta.shape;
  fields.Int("linear_num_key_heads", &shape.key_heads, 1, kMaxDim);
  fields.Int("linear_num_value_heads", &shape.heads, 1, kMaxDim);
  fields.Int("linear_key_head_dim", &shape.key, 1, kMaxDim);
  fields.Int("linear_value_head_dim", &shape.value, 1, kMaxDim);
  fields.Int("linear_conv_kernel_dim", &c.delta.taps, 2, kMaxDim, 4);
  fields.Refuse("conversion", "models with layers of the gated delta rule are not converted");
  if (!fields.ok()) return;
  fields.Require(shape.heads % shape.key_heads == 0, "linear_num_value_heads", shape.heads,
                 absl::StrCat("be a multiple of linear_num_key_heads, which is ", shape.key_heads));
  c.delta.width = c.d_model;
  c.delta.epsilon = c.norm_epsilon;
  c.delta.gain_offset = c.norm_gain_offset;
  fields.LimitSize("linear_conv_kernel_dim and the numbers and sizes of linear heads", c.delta.taps,
                   shape.convolved());
  fields.LimitSize("the numbers and sizes of linear heads", shape.heads * shape.key, shape.value);
  fields.LimitSize("prefill_chunk and the numbers and sizes of linear heads", c.rows(),
                   2 * shape.projected());
}

// Limits sizes that no tensor of the checkpoint has.
void LimitSizes(ConfigFields& fields, const RotaryConfig& c) {
  const RotaryAttentionConfig& a = c.attention;
  fields.LimitSize("prefill_chunk, num_attention_heads and head_dim", c.rows(),
                   2 * c.d_model + 3 * (a.heads + 2 * a.kv_heads) * a.head);
  fields.LimitSize("prefill_chunk and intermediate_size", c.rows(), 2 * c.d_ff);
  fields.LimitSize("num_key_value_heads and head_dim", 2 * a.kv_heads * kKeyValuePage, a.head);
}

}  // namespace

absl::StatusOr<RotaryConfig> ParseRotaryConfig(const Config& config, const RotaryFamily& family) {
  RotaryConfig c;
  ConfigFields fields(config);
  fields.Common(&c.common);
  if (fields.ok() && c.common.max_position == 0) c.common.max_position = family.max_position;
  RefuseOthers(fields);
  ReadShape(fields, family, c);
  ReadOptions(fields, family, c);
  ReadWindow(fields, family, c);
  if (family.delta_layers) ReadDelta(fields, c);
  if (fields.ok()) LimitSizes(fields, c);
  if (!fields.ok()) return fields.status();
  if (absl::Status s = ReadLayerTypes(config, family, c); !s.ok()) return s;
  absl::StatusOr<std::vector<float>> frequencies =
      ReadFrequencies(config, c.attention.head, family.rotary_part);
  if (!frequencies.ok()) return frequencies.status();
  c.frequencies = *std::move(frequencies);
  c.attention.width = c.d_model;
  c.output_norm = true;
  c.norm = Norm::kRms;
  return c;
}

}  // namespace tvq
