// The fields that kinds of attention and blocks have or lack, and sizes that nobody can hold.
#include "models/runtime/families/transformer/transformer_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/runtime/families/families.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

const Family& FamilyOf(const std::string& kind) {
  return **FindFamily(Config::Parse(nlohmann::json{{"model_type", kind}}.dump(), "test").value());
}

// The fields that every kind needs, and those of this one.
nlohmann::json Good(const std::string& kind) {
  nlohmann::json json = {{"model_type", kind},
                         {"vocab_size", 259},
                         {"d_model", 64},
                         {"d_k", 16},
                         {"d_v", 32},
                         {"n_layer", 2},
                         {"tokenizer", {{"type", "bytes"}}}};
  for (const char* field : FamilyOf(kind).fields.required) json[field] = 12;
  return json;
}

nlohmann::json With(nlohmann::json json, const char* field, const nlohmann::json& value) {
  json[field] = value;
  return json;
}

absl::StatusOr<TransformerConfig> Parse(const nlohmann::json& json) {
  const Config config = Config::Parse(json.dump(), "config.json").value();
  const absl::StatusOr<const Family*> family = FindFamily(config);
  if (!family.ok()) return family.status();
  return ParseTransformerConfig(config, (*family)->fields);
}

std::string Error(const nlohmann::json& json) {
  const absl::Status status = Parse(json).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(TransformerConfigTest, ReadsFieldsAndDefaults) {
  nlohmann::json json = With(Good("transformer_vq"), "mem_len", 20);
  const absl::StatusOr<TransformerConfig> config = Parse(json);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->d_model, 64);
  EXPECT_EQ(config->n_code, 12);
  EXPECT_EQ(config->window(), 21);
  EXPECT_EQ(config->n_head, 1);
  EXPECT_EQ(config->n_kv_head, 1);
  EXPECT_EQ(config->pe_lam, 100000);
  EXPECT_EQ(config->logit_scale, 1);
  EXPECT_EQ(config->block, Block::kGated);
  EXPECT_FALSE(config->pe_abs || config->tie_word_embeddings || config->output_norm);
}

TEST(TransformerConfigTest, KeyValueHeadsDefaultToTheHeads) {
  nlohmann::json json = With(Good("transformer_vq"), "n_head", 6);
  EXPECT_EQ(Parse(json)->n_kv_head, 6);
  json["n_kv_head"] = 2;
  EXPECT_EQ(Parse(json)->n_kv_head, 2);
  json["n_kv_head"] = 4;
  EXPECT_THAT(Error(json), HasSubstr("n_kv_head is 4, must divide n_head, which is 6"));
}

TEST(TransformerConfigTest, EveryKindNamesWhatIsWrong) {
  for (const Family& kind : AllFamilies()) {
    const nlohmann::json good = Good(kind.model_type);
    EXPECT_TRUE(Parse(good).ok()) << kind.model_type << ": " << Parse(good).status();
    std::vector<const char*> fields{"d_model", "d_k", "d_v", "n_layer"};
    fields.insert(fields.end(), kind.fields.required.begin(), kind.fields.required.end());
    for (const char* field : fields) {
      nlohmann::json json = good;
      json.erase(field);
      EXPECT_THAT(Error(json), HasSubstr(field));
      for (const nlohmann::json& bad :
           {nlohmann::json(-1), nlohmann::json(int64_t{1} << 60), nlohmann::json("64")}) {
        EXPECT_THAT(Error(With(good, field, bad)), HasSubstr(field));
      }
    }
    for (const char* field : kind.fields.optional) {
      if (std::string(field) == "position_bias") continue;
      EXPECT_TRUE(Parse(With(good, field, 3)).ok());
      EXPECT_THAT(Error(With(good, field, 0)), HasSubstr(field));
    }
  }
  EXPECT_THAT(Error(With(Good("performer"), "d_model", 63)),
              HasSubstr("d_model is 63, must be even"));
  EXPECT_THAT(Error(With(Good("performer"), "n_feature", 2.5)), HasSubstr("n_feature"));
  EXPECT_EQ(Parse(With(Good("soft_codebook"), "sigma", 0.25))->sigma, 0.25);
  EXPECT_THAT(Error(With(Good("soft_codebook"), "sigma", 0)), HasSubstr("\"sigma\" is 0"));
  EXPECT_EQ(Parse(With(Good("softmax_transformer"), "mem_len", 0))->window(), 1);
}

TEST(TransformerConfigTest, FormsOfThePositionBias) {
  const nlohmann::json vq = Good("transformer_vq"), softmax = Good("softmax_transformer");
  EXPECT_EQ(Parse(vq)->position_bias, PositionBias::kRelative);
  EXPECT_EQ(Parse(With(vq, "position_bias", "relative"))->position_bias, PositionBias::kRelative);
  EXPECT_EQ(Parse(With(vq, "position_bias", "toeplitz"))->position_bias, PositionBias::kToeplitz);
  EXPECT_EQ(Parse(With(vq, "position_bias", "rerope"))->position_bias, PositionBias::kRerope);
  EXPECT_EQ(Parse(With(softmax, "position_bias", "toeplitz"))->position_bias,
            PositionBias::kToeplitz);
  EXPECT_THAT(Error(With(softmax, "position_bias", "rerope")),
              HasSubstr("position_bias is \"rerope\", must be one of: relative, toeplitz"));
  EXPECT_THAT(Error(With(vq, "position_bias", "alibi")),
              HasSubstr("must be one of: relative, toeplitz, rerope"));
  EXPECT_THAT(Error(With(vq, "position_bias", 1)), HasSubstr("position_bias"));
  EXPECT_THAT(Error(With(With(vq, "position_bias", "rerope"), "d_k", 15)),
              HasSubstr("d_k is 15, must be even (it is turned in pairs)"));
  EXPECT_TRUE(Parse(With(With(vq, "position_bias", "toeplitz"), "d_k", 15)).ok());
}

TEST(TransformerConfigTest, EveryKindRefusesTheFieldsThatItLacks) {
  for (const Family& kind : AllFamilies()) {
    for (const char* field :
         {"n_code", "block_len", "mem_len", "position_bias", "sigma", "n_feature"}) {
      if (kind.fields.Has(field)) continue;
      const nlohmann::json json = Good(kind.model_type);
      EXPECT_EQ(Error(With(json, field, 8)), std::string("config.json: ") + field +
                                                 " must not be there: a " + kind.model_type +
                                                 " has none");
      EXPECT_TRUE(Parse(With(json, field, nullptr)).ok()) << "null counts as absent";
    }
  }
}

TEST(TransformerConfigTest, RefusesAnUnknownKind) {
  EXPECT_THAT(Error(With(Good("performer"), "model_type", "mamba")),
              HasSubstr("model_type is \"mamba\", must be one of: linear_transformer, llama, "));
}

TEST(TransformerConfigTest, AStandardBlockHasAnMlp) {
  const nlohmann::json good = Good("linear_transformer");
  nlohmann::json json = With(good, "block", "standard");
  EXPECT_THAT(Error(json), HasSubstr("d_ff"));
  json["d_ff"] = 96;
  const auto parsed = Parse(json);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->block, Block::kStandard);
  EXPECT_EQ(parsed->d_ff, 96);
  EXPECT_EQ(Error(With(good, "d_ff", 96)),
            "config.json: d_ff must not be there: only a standard block has an MLP");
  EXPECT_EQ(Error(With(good, "block", "parallel")),
            "config.json: block is \"parallel\", must be one of: gated, standard");
}

// No tensor has the size of these fields, so only the config itself can refuse them.
TEST(TransformerConfigTest, RefusesSizesNobodyCanHold) {
  const auto wrong = [](const char* kind, const std::map<const char*, int64_t>& fields) {
    nlohmann::json json = Good(kind);
    for (const auto& [field, value] : fields) json[field] = value;
    return Error(json);
  };
  EXPECT_THAT(wrong("transformer_vq", {{"mem_len", 1 << 20}, {"d_model", 1 << 12}}),
              HasSubstr("mem_len and d_model together"));
  EXPECT_THAT(wrong("transformer_vq", {{"prefill_chunk", 1 << 20}, {"d_v", 1 << 12}}),
              HasSubstr("prefill_chunk, n_head, d_k and d_v together"));
  EXPECT_THAT(wrong("softmax_transformer", {{"mem_len", 1 << 14}, {"n_head", 1 << 12}}),
              HasSubstr("n_feature and mem_len together"));
  EXPECT_THAT(wrong("linear_transformer", {{"d_k", 1 << 16}, {"d_v", 1 << 16}}),
              HasSubstr("n_kv_head, d_k, n_code, n_feature and d_v together"));
  EXPECT_THAT(wrong("performer", {{"n_feature", 1 << 20}, {"n_head", 1 << 6}}),
              HasSubstr("n_feature and mem_len together"));
  nlohmann::json json = With(Good("linear_transformer"), "block", "standard");
  json["d_ff"] = 1 << 20;
  json["prefill_chunk"] = 1 << 12;
  EXPECT_THAT(Error(json), HasSubstr("prefill_chunk and d_ff together"));
  // A pass has 64 rows however small a chunk is, and every layer has position keys of its own.
  EXPECT_THAT(wrong("softmax_transformer",
                    {{"prefill_chunk", 1}, {"n_head", 64}, {"d_k", 1}, {"mem_len", 1 << 19}}),
              HasSubstr("n_feature and mem_len together"));
  EXPECT_THAT(wrong("softmax_transformer", {{"mem_len", 1 << 17}, {"d_k", 64}, {"n_layer", 200}}),
              HasSubstr("n_layer, mem_len, n_head and d_k together"));
}

}  // namespace
}  // namespace tvq
