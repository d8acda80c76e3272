#include "server/rpc/wire/status.h"

#include <gtest/gtest.h>

#include <string>

#include "base/refusal.h"
#include "tvq/v1/refusal.pb.h"

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
  // 1277 bytes hold 425 characters.
  EXPECT_EQ(cut, message.substr(0, 425 * 3) + "...");
  const std::string fits(kMaxStatusMessageBytes, 'x');
  EXPECT_EQ(ToGrpc(absl::NotFoundError(fits)).error_message(), fits);
}

// What any library for google.rpc reads: the messages' numbers are written out here.
TEST(ToGrpcTest, HasStandardDetails) {
  Refusal refusal{.reason = Reason::kMemoryFull,
                  .field = "chunk",
                  .retry = Retry::kAfter,
                  .retry_after_ms = 2250};
  const grpc::Status status = ToGrpc(Refused(refusal, "no memory"));
  v1::StatusDetails details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), 8);
  EXPECT_EQ(details.message(), "chunk: no memory");
  ASSERT_EQ(details.details_size(), 3);
  const auto value = [&](int i, const char* type) {
    EXPECT_EQ(details.details(i).type_url(), type);
    return details.details(i).value();
  };
  EXPECT_EQ(value(0, "type.googleapis.com/google.rpc.ErrorInfo"),
            "\x0a\x0bMEMORY_FULL\x12\x03tvq\x1a\x0e\x0a\x05retry\x12\x05"
            "after");
  EXPECT_EQ(value(1, "type.googleapis.com/google.rpc.BadRequest"),
            "\x0a\x12\x0a\x05"
            "chunk\x12\x09no memory");
  EXPECT_EQ(value(2, "type.googleapis.com/google.rpc.RetryInfo"),
            std::string("\x0a\x07\x08\x02\x10\x80\xe5\x9aw", 9));
}

TEST(ToGrpcTest, HasNoMoreDetailsThanBelong) {
  v1::StatusDetails details;
  ASSERT_TRUE(details.ParseFromString(
      ToGrpc(Refused(Reason::kDeadlinePassed, "the deadline passed")).error_details()));
  ASSERT_EQ(details.details_size(), 1);
  v1::ErrorInfo info;
  ASSERT_TRUE(info.ParseFromString(details.details(0).value()));
  EXPECT_EQ(info.reason(), "DEADLINE_PASSED");
  EXPECT_EQ(info.metadata().at("retry"), "now");
}

TEST(ToGrpcTest, FitsWhatClientsTakeOfMetadata) {
  const std::string long_text(10 * kMaxStatusMessageBytes, '\n');  // three bytes each, as %0A
  const grpc::Status status = ToGrpc(Refused(Reason::kValueInvalid, "field", long_text));
  EXPECT_LT(3 * status.error_message().size() + 4 * status.error_details().size() / 3, 8192U);
}

TEST(RetryPushbackTest, OnlyWhereTryingAgainCanHelp) {
  const auto pushback = [](const absl::Status& status) {
    return RetryPushbackMs(RefusalOf(status));
  };
  EXPECT_EQ(pushback(Refused(Reason::kQueueFull, "full")), kRetryAfterMs);
  EXPECT_EQ(pushback(Refused(Reason::kRequestTooLarge, "never fits")), -1);
  EXPECT_EQ(pushback(Refused({.reason = Reason::kQueueFull, .retry = Retry::kNever}, "full")), -1);
  EXPECT_FALSE(pushback(Refused(Reason::kStopping, "")).has_value());
  EXPECT_FALSE(pushback(Refused(Reason::kValueInvalid, "")).has_value());
}

}  // namespace
}  // namespace tvq
