#include "client/cpp/grpc_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/cpp/client.h"
#include "tests/client/cpp/fake_server.h"

namespace tvq::client {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::StartsWith;

TEST(GrpcWordsTest, AServersOwnWordsStay) {
  for (const StatusCode code : {StatusCode::kInvalidArgument, StatusCode::kUnavailable,
                                StatusCode::kUnimplemented, StatusCode::kResourceExhausted}) {
    EXPECT_EQ(WithoutGrpcWords(code, "model: there is no \"a\""), "model: there is no \"a\"");
  }
}

TEST(GrpcWordsTest, ARequestThatIsTooLargeIsTold) {
  for (const char* begin : {"", "SERVER: "}) {
    EXPECT_EQ(WithoutGrpcWords(StatusCode::kResourceExhausted,
                               std::string(begin) + "Received message larger than max (7 vs. 5)"),
              "the request has 7 bytes, the server takes at most 5; a longer text can be appended "
              "to a session in parts");
  }
}

TEST(GrpcWordsTest, AnHttpServerIsTold) {
  EXPECT_EQ(
      WithoutGrpcWords(StatusCode::kUnavailable, "Received http2 header with status: 502"),
      "an HTTP server or a proxy answers with status 502 in the place of tvq-server; give the "
      "address of tvq-server itself");
}

TEST(GrpcWordsTest, ACallThatIsNotThereIsTold) {
  for (const char* message :
       {"", "Method not found!", "unknown service tvq.v1.ModelService",
        "unknown method GetServerInfo for service tvq.v1.ModelService",
        "The server does not implement the method /tvq.v1.ModelService/GetServerInfo"}) {
    EXPECT_THAT(WithoutGrpcWords(StatusCode::kUnimplemented, message),
                StartsWith("this server does not take such calls"))
        << message;
  }
}

TEST(GrpcWordsTest, ACallThatIsBrokenOffIsTold) {
  for (const char* message : {"Stream removed", "Received RST_STREAM with error code 2",
                              "Stream removed (Data frame with END_STREAM flag received)"}) {
    EXPECT_THAT(WithoutGrpcWords(StatusCode::kInternal, message),
                StartsWith("the server broke the call off"))
        << message;
  }
  EXPECT_THAT(WithoutGrpcWords(StatusCode::kUnavailable, "Received RST_STREAM with error code 7"),
              StartsWith("The connection to the server broke"));
}

TEST(GrpcWordsTest, ATimeoutIsTold) {
  for (const char* message : {"Deadline Exceeded", "Stream removed (Deadline Exceeded)"}) {
    EXPECT_EQ(WithoutGrpcWords(StatusCode::kDeadlineExceeded, message),
              "the call took longer than its timeout");
  }
}

TEST(GrpcWordsTest, NothingSaidIsTold) {
  EXPECT_EQ(WithoutGrpcWords(StatusCode::kInternal, ""), "the server did not say why");
}

TEST(GrpcWordsTest, HeadersThatAreTooLongAreTold) {
  FakeServer server;
  const std::string text(100'000, 'k');
  for (const bool by_key : {true, false}) {
    ConnectOptions options;
    options.address = server.address();
    if (by_key) options.api_key = text;
    CallOptions call;
    if (!by_key) call.request_id = text;
    const auto client = Client::Connect(options);
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_THAT(std::string((*client)->sessions().Get({}, call).status().message()),
                HasSubstr("the key or the request id is too long"));
  }
}

}  // namespace
}  // namespace tvq::client
