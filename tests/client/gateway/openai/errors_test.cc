#include "client/gateway/openai/errors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/cord.h"

namespace tvq::gateway {
namespace {

// proto/README.md's, and OpenAI's words.
TEST(ErrorsTest, TheTable) {
  using Code = absl::StatusCode;
  const std::string invalid = "invalid_request_error", server = "server_error";
  for (const auto& [code, http, type, name] :
       std::vector<std::tuple<Code, int, std::string, std::string>>{
           {Code::kInvalidArgument, 400, invalid, ""},
           {Code::kOutOfRange, 400, invalid, ""},
           {Code::kUnauthenticated, 401, invalid, "invalid_api_key"},
           {Code::kPermissionDenied, 403, "permission_error", "permission_denied"},
           {Code::kNotFound, 404, invalid, "not_found"},
           {Code::kAborted, 409, "conflict_error", "conflict"},
           {Code::kAlreadyExists, 409, "conflict_error", "already_exists"},
           {Code::kFailedPrecondition, 412, invalid, "failed_precondition"},
           {Code::kResourceExhausted, 429, "rate_limit_error", "rate_limit_exceeded"},
           {Code::kCancelled, 499, "cancelled_error", "cancelled"},
           {Code::kInternal, 500, server, "internal_error"},
           {Code::kUnknown, 500, server, "internal_error"},
           {Code::kDataLoss, 500, server, "data_loss"},
           {Code::kUnimplemented, 501, server, "unimplemented"},
           {Code::kUnavailable, 503, server, "unavailable"},
           {Code::kDeadlineExceeded, 504, server, "deadline_exceeded"},
       }) {
    const ApiError error = ToApiError(absl::Status(code, "x"));
    EXPECT_EQ(error.status, http);
    EXPECT_EQ(error.type, type) << http;
    EXPECT_EQ(error.code, name) << http;
    EXPECT_EQ(error.retry_after_ms.has_value(), http == 429 || http == 503) << http;
  }
}

// OpenAI's packages make a call again that was answered 5xx.
TEST(ErrorsTest, WhatAModelCannotDoIsWrongInTheRequest) {
  const ApiError error = ToApiError(absl::UnimplementedError("model: \"m\" has no encoder"));
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.type, "invalid_request_error");
  EXPECT_EQ(error.param, "model");
  EXPECT_EQ(ToApiError(absl::UnimplementedError("this server keeps no sessions")).status, 501);
}

TEST(ErrorsTest, FieldsAreRenamedOutsideOfWhatAClientSent) {
  std::string message =
      R"(max_tokens: "a max_tokens \" max_tokens" is more than max_tokens, max_tokens_total, nor min_max_tokens)";
  RenameInMessage("max_tokens", "limit", &message);
  EXPECT_EQ(
      message,
      R"(limit: "a max_tokens \" max_tokens" is more than limit, max_tokens_total, nor min_max_tokens)");
}

TEST(ErrorsTest, PromptsThatAreTooLongHaveOpenAisCode) {
  const char* const both =
      "prompt: has 9 tokens, and max_tokens is 3; together they must be at most 8, the model's "
      "context length";
  for (const char* message :
       {"prompt: has 9 tokens, must be at most 8, the model's context length", both,
        "text: has 9 tokens, must have at most 8, the server's limit",
        "text: has 9 tokens, must have at most 8, the prompt tokens that may wait",
        "text: has 99 bytes, more than 8 tokens, the server's limit, can stand for"}) {
    EXPECT_EQ(ToApiError(absl::InvalidArgumentError(message)).code, "context_length_exceeded");
  }
  EXPECT_EQ(ToApiError(absl::InvalidArgumentError("n: must be at most 8, the server's limit")).code,
            "");
}

TEST(ErrorsTest, ParamIsTheFieldThatTheMessageNames) {
  const auto param = [](const char* message) {
    return ToApiError(absl::InvalidArgumentError(message)).param;
  };
  EXPECT_EQ(param("max_tokens: value is -3, must be at least 1"), "max_tokens");
  EXPECT_EQ(param("stop[3]: is empty"), "stop[3]");
  EXPECT_EQ(param("the server: is away"), "");
  EXPECT_EQ(param(": x"), "");
  EXPECT_EQ(param("no field"), "");
}

TEST(ErrorsTest, WhenToComeAgain) {
  const auto error = [](const char* message, const char* pushback) {
    absl::Status status = absl::ResourceExhaustedError(message);
    if (pushback != nullptr) status.SetPayload("grpc-retry-pushback-ms", absl::Cord(pushback));
    return ToApiError(status);
  };
  EXPECT_EQ(error("full", "1500").status, 429);
  EXPECT_EQ(error("full", "1500").retry_after_ms, 1500);
  EXPECT_EQ(error("full", "0").retry_after_ms, 0);
  EXPECT_EQ(error("never fits", "-1").status, 413);
  EXPECT_EQ(error("never fits", "-1").retry_after_ms, std::nullopt);
  EXPECT_EQ(error("something is full", nullptr).status, 429);
  // Only the server knows whether it is that snapshot or its memory.
  EXPECT_EQ(error("snapshot: has more than 9 bytes", "-1").status, 413);
  EXPECT_EQ(error("snapshot: no memory for more than 9 bytes", "1000").status, 429);
  EXPECT_EQ(error("snapshot: no memory for more than 9 bytes", nullptr).retry_after_ms, 1000);
}

TEST(ErrorsTest, Json) {
  const ApiError error = ToApiError(absl::NotFoundError("model: there is no \"\xff\""));
  EXPECT_EQ(nlohmann::json::parse(ToJson(error)), nlohmann::json::parse(R"({"error": {
      "message": "model: there is no \"\ufffd\"", "type": "invalid_request_error", "param": "model",
      "code": "model_not_found"}})"));
  EXPECT_EQ(nlohmann::json::parse(ToJson(HttpError(400, "x")))["error"]["param"], nullptr);
}

}  // namespace
}  // namespace tvq::gateway
