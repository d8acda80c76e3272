#include "server/rpc/wire/status.h"

#include <gtest/gtest.h>

namespace tvq {
namespace {

TEST(ToGrpcTest, KeepsCodeAndMessage) {
  const struct {
    absl::Status status;
    grpc::StatusCode code;
  } cases[] = {
      {absl::InvalidArgumentError("x"), grpc::StatusCode::INVALID_ARGUMENT},
      {absl::NotFoundError("x"), grpc::StatusCode::NOT_FOUND},
      {absl::ResourceExhaustedError("x"), grpc::StatusCode::RESOURCE_EXHAUSTED},
      {absl::UnavailableError("x"), grpc::StatusCode::UNAVAILABLE},
      {absl::AbortedError("x"), grpc::StatusCode::ABORTED},
      {absl::FailedPreconditionError("x"), grpc::StatusCode::FAILED_PRECONDITION},
      {absl::DataLossError("x"), grpc::StatusCode::DATA_LOSS},
      {absl::DeadlineExceededError("x"), grpc::StatusCode::DEADLINE_EXCEEDED},
      {absl::CancelledError("x"), grpc::StatusCode::CANCELLED},
      {absl::InternalError("x"), grpc::StatusCode::INTERNAL},
      {absl::UnimplementedError("x"), grpc::StatusCode::UNIMPLEMENTED},
  };
  for (const auto& c : cases) {
    const grpc::Status status = ToGrpc(c.status);
    EXPECT_EQ(status.error_code(), c.code) << c.status;
    EXPECT_EQ(status.error_message(), "x");
  }
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
}

TEST(ToGrpcTest, CutsALongMessageAtACharacter) {
  std::string message;
  while (message.size() < 3 * kMaxStatusMessageBytes) message += "\xE2\x82\xAC";  // 3 bytes each
  const std::string cut = ToGrpc(absl::NotFoundError(message)).error_message();
  // 2045 bytes hold 681 characters.
  EXPECT_EQ(cut, message.substr(0, 681 * 3) + "...");
  const std::string fits(kMaxStatusMessageBytes, 'x');
  EXPECT_EQ(ToGrpc(absl::NotFoundError(fits)).error_message(), fits);
}

TEST(RetryPushbackTest, OnlyWhereTryingAgainCanHelp) {
  const absl::Status full = absl::ResourceExhaustedError("the queue is full");
  EXPECT_EQ(RetryPushbackMs(full, /*fits_idle_server=*/true), kRetryPushbackMs);
  EXPECT_EQ(RetryPushbackMs(full, /*fits_idle_server=*/false), -1);
  EXPECT_FALSE(RetryPushbackMs(absl::UnavailableError(""), true).has_value());
  EXPECT_FALSE(RetryPushbackMs(absl::InvalidArgumentError(""), true).has_value());
}

}  // namespace
}  // namespace tvq
