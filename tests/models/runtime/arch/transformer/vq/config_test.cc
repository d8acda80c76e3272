#include "models/runtime/arch/transformer/vq/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tvq::transformer {
namespace {

using ::testing::HasSubstr;

nlohmann::json Good() {
  return {{"model_type", "transformer_vq"},
          {"vocab_size", 259},
          {"d_model", 64},
          {"d_k", 16},
          {"d_v", 32},
          {"n_code", 24},
          {"n_layer", 2},
          {"block_len", 12},
          {"mem_len", 20},
          {"tokenizer", {{"type", "bytes"}}}};
}

absl::StatusOr<VqConfig> Parse(const nlohmann::json& json) {
  absl::StatusOr<Config> config = Config::Parse(json.dump(), "config.json");
  if (!config.ok()) return config.status();
  return ParseVqConfig(*config);
}

std::string Error(const nlohmann::json& json) {
  const absl::Status status = Parse(json).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(VqConfigTest, ReadsFieldsAndDefaults) {
  const absl::StatusOr<VqConfig> config = Parse(Good());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->d_model, 64);
  EXPECT_EQ(config->window(), 21);
  EXPECT_EQ(config->n_head, 1);
  EXPECT_EQ(config->n_kv_head, 1);
  EXPECT_EQ(config->pe_lam, 100000);
  EXPECT_EQ(config->logit_scale, 1);
  EXPECT_FALSE(config->pe_abs || config->tie_word_embeddings || config->output_norm);
}

TEST(VqConfigTest, KeyValueHeadsDefaultToTheHeads) {
  nlohmann::json json = Good();
  json["n_head"] = 6;
  EXPECT_EQ(Parse(json)->n_kv_head, 6);
  json["n_kv_head"] = 2;
  EXPECT_EQ(Parse(json)->n_kv_head, 2);
}

TEST(VqConfigTest, NamesWhatIsWrong) {
  for (const char* field : {"d_model", "d_k", "d_v", "n_code", "n_layer", "block_len", "mem_len"}) {
    nlohmann::json json = Good();
    json.erase(field);
    EXPECT_THAT(Error(json), HasSubstr(field));
    json[field] = -1;
    EXPECT_THAT(Error(json), HasSubstr(field));
    json[field] = int64_t{1} << 40;
    EXPECT_THAT(Error(json), HasSubstr(field));
    json[field] = "64";
    EXPECT_THAT(Error(json), HasSubstr(field));
  }
  nlohmann::json json = Good();
  json["n_head"] = 3;
  json["n_kv_head"] = 2;
  EXPECT_THAT(Error(json), HasSubstr("n_kv_head is 2, must divide n_head, which is 3"));
  json = Good();
  json["d_model"] = 63;
  EXPECT_THAT(Error(json), HasSubstr("d_model is 63, must be even"));
}

// No tensor has the size of these fields, so only the config itself can refuse them.
TEST(VqConfigTest, RefusesSizesNobodyCanHold) {
  nlohmann::json json = Good();
  json["mem_len"] = 1 << 20;
  json["d_model"] = 1 << 12;
  EXPECT_THAT(Error(json), HasSubstr("mem_len and d_model together"));
  json = Good();
  json["prefill_chunk"] = 1 << 20;
  json["d_v"] = 1 << 12;
  EXPECT_THAT(Error(json), HasSubstr("prefill_chunk"));
  json = Good();
  json["n_head"] = 1 << 20;
  json["mem_len"] = 1 << 12;
  EXPECT_THAT(Error(json), HasSubstr("mem_len, n_head and d_k together"));
}

}  // namespace
}  // namespace tvq::transformer
