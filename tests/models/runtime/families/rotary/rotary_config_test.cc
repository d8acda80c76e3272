#include "models/runtime/families/rotary/rotary_config.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/runtime/registry/registry.h"
#include "tests/kernels/test_devices.h"
#include "tests/models/runtime/random_weights.h"

namespace tvq {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::FloatEq;
using testing::FloatNear;
using testing::HasSubstr;

// A config.json with `more` fields, the last of which count.
std::string Json(const std::string& type, const std::string& more) {
  return R"({"model_type": ")" + type +
         R"(", "vocab_size": 40, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 1,
             "num_attention_heads": 2, "tokenizer": {"type": "ids"})" +
         more + "}";
}

absl::StatusOr<RotaryConfig> Parse(const std::string& more, const RotaryFamily& family = {}) {
  return ParseRotaryConfig(Config::Parse(Json("llama", more), "config.json").value(), family);
}

std::string Error(const std::string& more, const RotaryFamily& family = {}) {
  const auto parsed = Parse(more, family);
  return parsed.ok() ? "none" : std::string(parsed.status().message());
}

TEST(RotaryConfigTest, ReadsShapeAndOptions) {
  const RotaryConfig c = Parse(R"(, "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
                                   "attention_bias": true, "max_position_embeddings": 77)",
                               {.biases = RotaryFamily::Biases::kField})
                             .value();
  EXPECT_EQ(c.d_model, 12);
  EXPECT_EQ(c.d_ff, 20);
  EXPECT_EQ(c.attention.head, 6);
  EXPECT_EQ(c.common.max_position, 77);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_TRUE(c.attention.qkv_biases);
  EXPECT_TRUE(c.attention.output_bias);
  EXPECT_EQ(c.norm_epsilon, 1e-5F);
}

// As transformers has it: a null is one for each head, and a field left out what the family says.
TEST(RotaryConfigTest, HeadsOfKeysMayBeLeftOut) {
  const RotaryFamily family = {.kv_heads = 1};
  EXPECT_EQ(Parse("", family)->attention.kv_heads, 1);
  EXPECT_EQ(Parse(R"(, "num_key_value_heads": null)", family)->attention.kv_heads, 2);
  EXPECT_EQ(Parse("")->attention.kv_heads, 2);
}

TEST(RotaryConfigTest, TakesFrequenciesInBothForms) {
  const std::vector<float> plain = Parse("").value().frequencies;
  EXPECT_THAT(plain, ElementsAre(1, FloatEq(std::pow(10000.0F, -1.0F / 3)),
                                 FloatEq(std::pow(10000.0F, -2.0F / 3))));
  EXPECT_EQ(Parse(R"(, "rope_theta": 10000, "rope_scaling": null)").value().frequencies, plain);
  const auto halved =
      Parse(R"(, "rope_theta": 10000, "rope_scaling": {"type": "linear", "factor": 2})");
  EXPECT_THAT(halved.value().frequencies,
              ElementsAre(0.5F, FloatEq(plain[1] / 2), FloatEq(plain[2] / 2)));
  EXPECT_THAT(Parse(R"(, "rope_parameters": {"rope_theta": 100, "rope_type": "default",
                                             "partial_rotary_factor": 0.7})")
                  .value()
                  .frequencies,
              ElementsAre(1, FloatEq(0.1F)));
}

// Waves: 2 pi, 2 pi 21.5, 2 pi 464 positions; a quarter of 64 is 16, so the first stays, the last
// is slowed, and the one between, of 135, is beyond 64, too.
TEST(RotaryConfigTest, SlowsTheFrequenciesOfLlama3) {
  const char* const scaled = R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8,
      "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": %d})";
  const auto of = [&](int original) {
    std::string text(512, 0);
    text.resize(static_cast<size_t>(std::snprintf(text.data(), text.size(), scaled, original)));
    return Parse(text).value().frequencies;
  };
  const std::vector<float> plain = Parse("").value().frequencies;
  EXPECT_THAT(of(64), ElementsAre(1, FloatEq(plain[1] / 8), FloatEq(plain[2] / 8)));
  // Of 200 positions 135 is between 50 and 200.
  const float smooth = (200 / (2 * std::acos(-1.0F) / plain[1]) - 1) / 3;
  EXPECT_THAT(of(200)[1], FloatNear(plain[1] * ((1 - smooth) / 8 + smooth), 1e-7));
}

TEST(RotaryConfigTest, RefusesByNameWhatChangesWhatIsComputed) {
  for (const char* field :
       {"\"quantization_config\": {}", "\"num_local_experts\": 8",
        "\"final_logit_softcapping\": 30", "\"vision_config\": {}", "\"rope_interleaved\": true",
        "\"logits_scaling\": 8", "\"is_causal\": false", "\"hidden_act\": \"gelu\""}) {
    const std::string name = std::string(field).substr(1, std::string(field).find('"', 1) - 1);
    EXPECT_THAT(Error(std::string(", ") + field), AllOf(HasSubstr("config.json"), HasSubstr(name)));
  }
  EXPECT_EQ(
      Error(
          R"(, "rope_interleaved": false, "logits_scaling": 1.0, "quantization_config": null, "is_causal": true)"),
      "none");
  EXPECT_THAT(Error(R"(, "rope_scaling": {"rope_type": "yarn", "factor": 4})"),
              HasSubstr("the rope type is \"yarn\", must be default, linear or llama3"));
  EXPECT_THAT(Error(R"(, "rope_scaling": {"factor": 4})"),
              HasSubstr("has a factor and no rope_type"));
  EXPECT_THAT(Error(R"(, "rope_parameters": {"full_attention": {"rope_theta": 5}})"),
              HasSubstr("other positions for other layers"));
  EXPECT_THAT(
      Error(R"(, "layer_types": ["full_attention", "sliding_attention"])"),
      HasSubstr("layer_types has \"sliding_attention\", must be full_attention throughout"));
  EXPECT_THAT(Error(R"(, "num_key_value_heads": 3)"),
              HasSubstr("num_key_value_heads is 3, must divide num_attention_heads, which is 2"));
  EXPECT_THAT(Error(R"(, "head_dim": 5)"),
              HasSubstr("rotary positions turn 5 numbers of each head of 5"));
}

// A window that no context reaches changes nothing.
TEST(RotaryConfigTest, AWindowBoundsTheContext) {
  const auto build = [](const std::string& json, int64_t longest) {
    const auto weights = RandomWeights(1);
    LoadOptions options;
    options.device = MakeDevice("cpu", 1).value();
    options.max_model_len = longest;
    return BuildModel(Config::Parse(json, "config.json").value(), *weights, nullptr, options)
        .status();
  };
  const std::string windowed =
      Json("mistral",
           R"(, "sliding_window": 64, "num_key_value_heads": 2, "max_position_embeddings": 500)");
  EXPECT_THAT(build(windowed, 0).ToString(),
              AllOf(HasSubstr("sliding_window is 64"), HasSubstr("--max-model-len 64")));
  EXPECT_TRUE(build(windowed, 64).ok());
  EXPECT_TRUE(
      build(
          Json(
              "mistral",
              R"(, "sliding_window": null, "num_key_value_heads": 2, "max_position_embeddings": 500)"),
          0)
          .ok());
  EXPECT_FALSE(
      build(Json("mistral", R"(, "num_key_value_heads": 2, "max_position_embeddings": 8192)"), 0)
          .ok());  // 4096 unless said
  EXPECT_TRUE(
      build(
          Json("qwen2",
               R"(, "num_key_value_heads": 2, "sliding_window": 64, "use_sliding_window": false)"),
          0)
          .ok());
}

TEST(RotaryConfigTest, EndIdsMayBeAList) {
  const CommonConfig common = Parse(R"(, "eos_token_id": [3, 5, 7])").value().common;
  EXPECT_EQ(common.eos_token_id, 3);
  EXPECT_THAT(common.more_end_ids, ElementsAre(5, 7));
  EXPECT_THAT(
      Error(R"(, "eos_token_id": [3, 40])"),
      HasSubstr("\"eos_token_id\" is an array; it must be an integer from 0 to 39, or a list"));
}

}  // namespace
}  // namespace tvq
