#include "client/gateway/bodies/embeddings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/refusal.h"

namespace tvq::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

EmbeddingsRequest ParsedInputs(const std::string& body) {
  auto request = ParseEmbeddings(body);
  EXPECT_TRUE(request.ok()) << body << ": " << request.status();
  return request.ok() ? *std::move(request) : EmbeddingsRequest();
}

std::string EmbeddingsError(const std::string& body) {
  const auto request = ParseEmbeddings(body);
  EXPECT_TRUE(absl::IsInvalidArgument(request.status())) << body;
  return std::string(request.status().message());
}

v1::EncodeResponse Reply(const std::vector<float>& vector, int32_t tokens) {
  v1::EncodeResponse reply;
  reply.mutable_vectors()->Add(vector.begin(), vector.end());
  reply.set_tokens(tokens);
  reply.set_width(static_cast<int32_t>(vector.size()));
  return reply;
}

TEST(EmbeddingsRequestTest, ReadsEveryField) {
  const EmbeddingsRequest request = ParsedInputs(R"({
    "model": "m", "input": "a", "encoding_format": "base64", "dimensions": 26, "user": "u",
    "something": {"else": [1]}})");
  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.base64);
  EXPECT_EQ(request.dimensions, 26);
  ASSERT_EQ(request.calls.size(), 1u);
  EXPECT_EQ(request.calls[0].model(), "m");
  EXPECT_EQ(request.calls[0].text(), "a");
  EXPECT_EQ(request.calls[0].pooling(), v1::POOLING_MEAN);
}

TEST(EmbeddingsRequestTest, NullIsAbsent) {
  const EmbeddingsRequest request = ParsedInputs(
      R"({"model": null, "input": "a", "encoding_format": null, "dimensions": null, "user": null})");
  EXPECT_EQ(request.model, "");
  EXPECT_FALSE(request.base64);
  EXPECT_EQ(request.dimensions, std::nullopt);
  EXPECT_EQ(EmbeddingsError(R"({"input": null})"), "input: must be given");
  EXPECT_EQ(EmbeddingsError("{}"), "input: must be given");
}

TEST(EmbeddingsRequestTest, InputsOfAllForms) {
  const auto ids = ParsedInputs(R"({"input": [1, 2]})");
  ASSERT_EQ(ids.calls.size(), 1u);
  EXPECT_THAT(ids.calls[0].token_ids().ids(), ElementsAre(1, 2));
  const auto texts = ParsedInputs(R"({"input": ["a", "b"]})");
  ASSERT_EQ(texts.calls.size(), 2u);
  EXPECT_EQ(texts.calls[1].text(), "b");
  EXPECT_EQ(texts.calls[1].pooling(), v1::POOLING_MEAN);
  const auto lists = ParsedInputs(R"({"input": [[1], [2, 3]]})");
  ASSERT_EQ(lists.calls.size(), 2u);
  EXPECT_THAT(lists.calls[1].token_ids().ids(), ElementsAre(2, 3));
}

TEST(EmbeddingsRequestTest, ErrorsNameTheField) {
  for (const char* input : {"1", "{}", "[]", "true", R"(["a", 1])", R"([[1], "a"])", "[true]",
                            R"([["a"]])", "[[1.5]]", "[1e10]", "[null]", "[{}]"}) {
    EXPECT_THAT(EmbeddingsError(std::string(R"({"input": )") + input + "}"), StartsWith("input"))
        << input;
  }
  for (const auto& [field, begin] : {
           std::pair(R"("model": 1)", "model: "),
           std::pair(R"("encoding_format": "int8")", "encoding_format: must be float or base64"),
           std::pair(R"("encoding_format": 1)", "encoding_format: "),
           std::pair(R"("dimensions": "26")", "dimensions: "),
           std::pair(R"("dimensions": 1.5)", "dimensions: "),
       }) {
    EXPECT_THAT(EmbeddingsError(std::string(R"({"input": "a", )") + field + "}"),
                StartsWith(begin));
  }
  EXPECT_THAT(EmbeddingsError("["), HasSubstr("body"));
}

TEST(EmbeddingsRequestTest, TakesAsManyTextsAsOpenAi) {
  const auto body = [](size_t count) {
    std::string list = R"({"input": ["a")";
    for (size_t i = 1; i < count; ++i) list += R"(,"a")";
    return list + "]}";
  };
  EXPECT_EQ(ParsedInputs(body(2048)).calls.size(), 2048u);
  EXPECT_EQ(EmbeddingsError(body(2049)), "input: has 2049 inputs, may have 2048");
}

TEST(EmbeddingsRequestTest, DimensionsAreThoseOfTheModel) {
  EXPECT_TRUE(CheckDimensions(ParsedInputs(R"({"input": "a"})"), 26).ok());
  const EmbeddingsRequest request = ParsedInputs(R"({"input": "a", "dimensions": 26})");
  EXPECT_TRUE(CheckDimensions(request, 26).ok());
  EXPECT_EQ(CheckDimensions(request, 128),
            Refused(Reason::kValueInvalid, "dimensions",
                    "is 26, must be left out or 128, the width of the model's vectors"));
}

TEST(EmbeddingsErrorTest, NamesTheTextAsTheBodyDoes) {
  const auto param = [](const char* body, const char* field) {
    const ApiError error =
        ToEmbeddingsError(Refused(Reason::kValueInvalid, field, "is bad"), ParsedInputs(body), 1);
    EXPECT_EQ(error.message, absl::StrCat(error.param, ": is bad"));
    return error.param;
  };
  EXPECT_EQ(param(R"({"input": "a"})", "text"), "input");
  EXPECT_EQ(param(R"({"input": ["a", ""]})", "text"), "input[1]");
  EXPECT_EQ(param(R"({"input": [1, 2]})", "token_ids[5]"), "input[5]");
  EXPECT_EQ(param(R"({"input": [[1], [2]]})", "token_ids[5]"), "input[1][5]");
  EXPECT_EQ(param(R"({"input": "a"})", "pooling"), "pooling");
  const ApiError other = ToEmbeddingsError(Refused(Reason::kModelUnfit, "model", "has none"),
                                           ParsedInputs(R"({"input": "a"})"), 0);
  EXPECT_EQ(other.status, 400);
  EXPECT_EQ(other.message, "model: has none");
}

TEST(EmbeddingsAnswerTest, IsInTheOrderOfTheTexts) {
  EmbeddingsAnswer answer(ParsedInputs(R"({"input": ["a", "b"]})"));
  answer.Add(1, Reply({-0.5F, 1e-8F}, 2));
  answer.Add(0, Reply({0.1F, 3}, 5));
  EXPECT_EQ(answer.ToJson("m\""), R"({"object":"list","data":[)"
                                  R"({"object":"embedding","index":0,"embedding":[0.1,3]},)"
                                  R"({"object":"embedding","index":1,"embedding":[-0.5,1e-08]}],)"
                                  R"("model":"m\"","usage":{"prompt_tokens":7,"total_tokens":7}})");
}

TEST(EmbeddingsAnswerTest, Base64IsOfTheFloatsBytes) {
  const std::vector<float> vector = {0.1F, -3.25F, 1e-30F};
  EmbeddingsAnswer answer(ParsedInputs(R"({"input": "a", "encoding_format": "base64"})"));
  answer.Add(0, Reply(vector, 1));
  const auto json = nlohmann::json::parse(answer.ToJson("m"));
  std::string bytes;
  ASSERT_TRUE(absl::Base64Unescape(json["data"][0]["embedding"].get<std::string>(), &bytes));
  ASSERT_EQ(bytes.size(), 3 * sizeof(float));
  std::vector<float> read(3);
  std::memcpy(read.data(), bytes.data(), bytes.size());
  EXPECT_EQ(read, vector);
}

}  // namespace
}  // namespace tvq::gateway
