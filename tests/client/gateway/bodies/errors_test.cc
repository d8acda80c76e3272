#include "client/gateway/bodies/errors.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "base/refusal.h"

namespace tvq::gateway {
namespace {

// The HTTP codes are those of the table in proto/README.md, which names all reasons.
TEST(ErrorsTest, TheTable) {
  std::ifstream file("proto/README.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::regex row(R"(\n\| `([A-Z_]+)` \| `[A-Z_]+` \| (\d+) \| (now|after|never) \|)");
  size_t rows = 0;
  for (std::sregex_iterator it(all.begin(), all.end(), row), end; it != end; ++it, ++rows) {
    const std::string name = (*it)[1].str();
    const ReasonInfo* const info = FindReason(name);
    ASSERT_NE(info, nullptr) << name;
    const ApiError error = ToApiError(Refused(info->reason, "field", "x"));
    EXPECT_EQ(error.status, std::stoi((*it)[2].str())) << name;
    EXPECT_EQ(error.reason, name);
    EXPECT_EQ(error.message, "field: x");
    EXPECT_EQ(error.param, error.status < 500 ? "field" : "") << name;
    EXPECT_EQ(error.retry_after_ms.has_value(), (*it)[3].str() == "after") << name;
    EXPECT_FALSE(error.type.empty()) << name;
  }
  EXPECT_EQ(rows, Reasons().size());
}

// Programs look for these.
TEST(ErrorsTest, HaveOpenAisWords) {
  const std::string invalid = "invalid_request_error";
  for (const auto& [reason, type, code] : std::vector<std::tuple<Reason, std::string, std::string>>{
           {Reason::kValueInvalid, invalid, ""},
           {Reason::kContextTooLong, invalid, "context_length_exceeded"},
           {Reason::kApiKeyUnknown, invalid, "invalid_api_key"},
           {Reason::kModelUnknown, invalid, "model_not_found"},
           {Reason::kSessionUnknown, invalid, "not_found"},
           {Reason::kQueueFull, "rate_limit_error", "rate_limit_exceeded"},
           {Reason::kRequestTooLarge, invalid, "too_large"},
           {Reason::kInternal, "server_error", "internal_error"},
       }) {
    const ApiError error = ToApiError(Refused(reason, "x"));
    EXPECT_EQ(error.type, type) << error.reason;
    EXPECT_EQ(error.code, code) << error.reason;
  }
}

// OpenAI's packages make a call again that was answered 5xx.
TEST(ErrorsTest, WhatAModelCannotDoIsWrongInTheRequest) {
  const ApiError error = ToApiError(Refused(Reason::kModelUnfit, "model", "has no encoder"));
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.type, "invalid_request_error");
  EXPECT_EQ(error.param, "model");
}

TEST(ErrorsTest, FieldsAreRenamedOutsideOfWhatAClientSent) {
  std::string message =
      R"(max_tokens: "a max_tokens \" max_tokens" is more than max_tokens, max_tokens_total, nor min_max_tokens)";
  RenameInMessage("max_tokens", "limit", &message);
  EXPECT_EQ(
      message,
      R"(limit: "a max_tokens \" max_tokens" is more than limit, max_tokens_total, nor min_max_tokens)");
}

TEST(ErrorsTest, FieldsHaveTheBodysNames) {
  const FieldNames names = {{"text", "prompt"}, {"token_ids", "prompt[3]"}};
  const auto renamed = [&](const char* field) {
    return ToApiError(Refused(Reason::kValueInvalid, field, "is empty"), names);
  };
  EXPECT_EQ(renamed("text").param, "prompt");
  EXPECT_EQ(renamed("text").message, "prompt: is empty");
  EXPECT_EQ(renamed("token_ids[1]").param, "prompt[3][1]");
  EXPECT_EQ(renamed("texts").param, "texts");
  EXPECT_EQ(renamed("texts").message, "texts: is empty");
}

// What only looks like a field's name is none.
TEST(ErrorsTest, NoFieldIsReadFromAMessage) {
  const ApiError error = ToApiError(Refused(Reason::kValueInvalid, "text: is empty"));
  EXPECT_EQ(error.param, "");
}

TEST(ErrorsTest, WhenToComeAgain) {
  const auto error = [](Retry retry, int64_t ms) {
    return ToApiError(
        Refused({.reason = Reason::kMemoryFull, .retry = retry, .retry_after_ms = ms}, "full"));
  };
  EXPECT_EQ(error(Retry::kAfter, 1500).status, 429);
  EXPECT_EQ(error(Retry::kAfter, 1500).retry_after_ms, 1500);
  EXPECT_EQ(error(Retry::kAfter, 0).retry_after_ms, 0);
  EXPECT_EQ(error(Retry::kNever, 0).status, 413);
  EXPECT_EQ(error(Retry::kNever, 0).code, "too_large");
  EXPECT_EQ(error(Retry::kNever, 0).retry_after_ms, std::nullopt);
  // As gRPC itself says it.
  EXPECT_EQ(ToApiError(absl::ResourceExhaustedError("full")).status, 429);
}

TEST(ErrorsTest, Json) {
  const ApiError error =
      ToApiError(Refused(Reason::kModelUnknown, "model", "there is no \"\xff\""));
  EXPECT_EQ(nlohmann::json::parse(ToJson(error)), nlohmann::json::parse(R"({"error": {
      "message": "model: there is no \"\ufffd\"", "type": "invalid_request_error", "param": "model",
      "code": "model_not_found", "reason": "MODEL_UNKNOWN"}})"));
  EXPECT_EQ(nlohmann::json::parse(ToJson(HttpError(400, "x")))["error"]["param"], nullptr);
}

}  // namespace
}  // namespace tvq::gateway
