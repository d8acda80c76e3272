#include "client/gateway/openai/errors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "absl/strings/cord.h"

namespace tvq::gateway {
namespace {

TEST(ErrorsTest, CodesOfTheTable) {
  for (const auto& [code, http] : {
           std::pair(absl::StatusCode::kInvalidArgument, 400),
           std::pair(absl::StatusCode::kUnauthenticated, 401),
           std::pair(absl::StatusCode::kPermissionDenied, 403),
           std::pair(absl::StatusCode::kNotFound, 404),
           std::pair(absl::StatusCode::kAborted, 409),
           std::pair(absl::StatusCode::kFailedPrecondition, 412),
           std::pair(absl::StatusCode::kResourceExhausted, 429),
           std::pair(absl::StatusCode::kCancelled, 499),
           std::pair(absl::StatusCode::kInternal, 500),
           std::pair(absl::StatusCode::kDataLoss, 500),
           std::pair(absl::StatusCode::kUnknown, 500),
           std::pair(absl::StatusCode::kUnimplemented, 501),
           std::pair(absl::StatusCode::kUnavailable, 503),
           std::pair(absl::StatusCode::kDeadlineExceeded, 504),
       }) {
    EXPECT_EQ(ToApiError(absl::Status(code, "x")).status, http);
  }
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
  EXPECT_EQ(error("Received message larger than max (5 vs. 4)", nullptr).status, 413);
  EXPECT_EQ(error("something is full", nullptr).status, 429);
}

TEST(ErrorsTest, Json) {
  const ApiError error = ToApiError(absl::NotFoundError("model: there is no \"\xff\""));
  EXPECT_EQ(nlohmann::json::parse(ToJson(error)), nlohmann::json::parse(R"({"error": {
      "message": "model: there is no \"\ufffd\"", "type": "not_found_error", "param": "model",
      "code": "model_not_found"}})"));
  EXPECT_EQ(nlohmann::json::parse(ToJson(HttpError(400, "x")))["error"]["param"], nullptr);
}

}  // namespace
}  // namespace tvq::gateway
