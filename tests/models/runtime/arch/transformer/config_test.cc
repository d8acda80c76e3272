// The fields that kinds of attention and blocks have or lack.
#include "models/runtime/arch/transformer/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "models/runtime/arch/transformer/linear/config.h"
#include "models/runtime/arch/transformer/softmax/config.h"
#include "models/runtime/arch/transformer/vq/config.h"

namespace tvq::transformer {
namespace {

using ::testing::HasSubstr;

// What every kind accepts.
nlohmann::json Common() {
  return {{"model_type", "any"}, {"vocab_size", 259},
          {"d_model", 64},       {"d_k", 16},
          {"d_v", 32},           {"n_layer", 2},
          {"block_len", 12},     {"tokenizer", {{"type", "bytes"}}}};
}

nlohmann::json With(const char* field, const nlohmann::json& value) {
  nlohmann::json json = Common();
  json[field] = value;
  return json;
}

template <typename Parse>
std::string Error(const Parse& parse, const nlohmann::json& json) {
  const absl::Status status = parse(Config::Parse(json.dump(), "config.json").value()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

template <typename Parse>
auto Parsed(const Parse& parse, const nlohmann::json& json) {
  return parse(Config::Parse(json.dump(), "config.json").value());
}

TEST(TransformerConfigTest, KindsRefuseTheFieldsThatTheyLack) {
  EXPECT_EQ(Error(ParseLinearConfig, With("mem_len", 8)),
            "config.json: mem_len must not be there: linear attention has no positional bias");
  EXPECT_EQ(Error(ParseLinearConfig, With("n_code", 8)),
            "config.json: n_code must not be there: linear attention has no codebook");
  nlohmann::json softmax = With("mem_len", 8);
  softmax["n_code"] = 8;
  EXPECT_EQ(Error(ParseSoftmaxConfig, softmax),
            "config.json: n_code must not be there: softmax attention has no codebook");
  EXPECT_TRUE(Parsed(ParseLinearConfig, With("mem_len", nullptr)).ok()) << "null counts as absent";
}

TEST(TransformerConfigTest, KindsDemandTheFieldsThatTheyNeed) {
  EXPECT_THAT(Error(ParseSoftmaxConfig, Common()), HasSubstr("mem_len"));
  EXPECT_EQ(Parsed(ParseSoftmaxConfig, With("mem_len", 8))->window(), 9);
  EXPECT_THAT(Error(ParseVqConfig, With("mem_len", 8)), HasSubstr("n_code"));
  nlohmann::json json = Common();
  json.erase("block_len");  // of training alone
  EXPECT_TRUE(Parsed(ParseLinearConfig, json).ok());
  json["block_len"] = 0;
  EXPECT_THAT(Error(ParseLinearConfig, json), HasSubstr("block_len"));
}

TEST(TransformerConfigTest, AStandardBlockHasAnMlp) {
  EXPECT_EQ(Parsed(ParseLinearConfig, Common())->block, Block::kGated);
  nlohmann::json json = With("block", "standard");
  EXPECT_THAT(Error(ParseLinearConfig, json), HasSubstr("d_ff"));
  json["d_ff"] = 96;
  const auto parsed = Parsed(ParseLinearConfig, json);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->block, Block::kStandard);
  EXPECT_EQ(parsed->d_ff, 96);
  EXPECT_EQ(Error(ParseLinearConfig, With("d_ff", 96)),
            "config.json: d_ff must not be there: only a standard block has an MLP");
  EXPECT_EQ(Error(ParseLinearConfig, With("block", "parallel")),
            "config.json: block is \"parallel\", must be one of: gated, standard");
}

TEST(TransformerConfigTest, RefusesSizesNobodyCanHold) {
  nlohmann::json json = With("mem_len", 1 << 20);
  json["n_head"] = 1 << 12;
  EXPECT_THAT(Error(ParseSoftmaxConfig, json), HasSubstr("mem_len, n_head and d_k together"));
  json = With("d_k", 1 << 16);
  json["d_v"] = 1 << 16;
  EXPECT_THAT(Error(ParseLinearConfig, json), HasSubstr("together ask for"));
  json = With("block", "standard");
  json["d_ff"] = 1 << 20;
  json["prefill_chunk"] = 1 << 12;
  EXPECT_THAT(Error(ParseLinearConfig, json), HasSubstr("prefill_chunk and d_ff together"));
}

}  // namespace
}  // namespace tvq::transformer
