// What becomes of calls that the server cancels.
#include "client/cpp/grpc_call.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/refusal.h"
#include "client/cpp/client.h"
#include "tests/client/cpp/fake_server.h"

namespace tvq::client {
namespace {

class GrpcCallTest : public testing::Test {
 protected:
  absl::Status Generate() {
    return client_->Generate({}, {}, [](const auto&) { return true; });
  }

  FakeServer server_;
  const std::unique_ptr<Client> client_ = *Client::Connect(server_.address());
};

const grpc::Status kCancelled(grpc::StatusCode::CANCELLED, "Cancelled");

// As calls that reach a server while it closes.
TEST_F(GrpcCallTest, CancelledBeforeItsAnswerIsToBeMadeAgain) {
  server_.sessions.get = [](auto*, const auto&, auto*) { return kCancelled; };
  server_.sessions.import_session = [](auto*, auto*, auto*) { return kCancelled; };
  server_.generation.generate = [](auto*, const auto&, auto*) { return kCancelled; };
  server_.generation.generate_with_state = [](auto*, auto*) { return kCancelled; };
  const ChunkSource nothing = [] { return std::string(); };
  const auto got = client_->sessions().Get({});
  EXPECT_TRUE(absl::IsUnavailable(got.status())) << got.status();
  const auto imported = client_->sessions().Import({}, nothing);
  EXPECT_TRUE(absl::IsUnavailable(imported.status())) << imported.status();
  const absl::Status generated = Generate();
  EXPECT_TRUE(absl::IsUnavailable(generated)) << generated;
  const auto stream = client_->GenerateWithState({}, nothing);
  v1::GenerateWithStateResponse response;
  EXPECT_FALSE(stream->Next(&response));
  const absl::Status ended = stream->Finish();
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
}

// As a server does to a client that takes nothing.
TEST_F(GrpcCallTest, CancelledAmidItsAnswerWasReadTooSlowly) {
  server_.generation.generate = [](auto* context, const auto&, auto* writer) {
    context->AddInitialMetadata("x-request-id", "r");
    writer->SendInitialMetadata();
    return kCancelled;
  };
  EXPECT_TRUE(absl::IsDeadlineExceeded(Generate())) << "after the head";
  server_.generation.generate = [](auto*, const auto&, auto* writer) {
    writer->Write(v1::GenerateResponse());
    return kCancelled;
  };
  EXPECT_TRUE(absl::IsDeadlineExceeded(Generate())) << "after a message";
}

TEST_F(GrpcCallTest, CancelledByItsClientSaysSo) {
  server_.generation.generate = [](auto* context, const auto&, auto* writer) {
    writer->Write(v1::GenerateResponse());
    while (!context->IsCancelled()) std::this_thread::yield();
    return kCancelled;
  };
  const absl::Status stopped = client_->Generate({}, {}, [](const auto&) { return false; });
  EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
}

// As a call that a server which drains has begun.
TEST_F(GrpcCallTest, TimeoutOfACallToAServerThatClosesSaysSo) {
  std::thread closing;
  server_.sessions.get = [&](auto* context, const auto&, auto*) {
    closing = std::thread([this] { server_.Close(); });
    while (!context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return kCancelled;
  };
  const absl::Status status = client_->sessions().Get({}, {.timeout = absl::Seconds(2)}).status();
  closing.join();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(status.message(),
            "the call took longer than its timeout; meanwhile the server began to close the "
            "connection, as one does that shuts down");
}

// As the server's own word that it never will: the gateway makes 413 of it, not 429.
TEST_F(GrpcCallTest, ARequestThatIsTooLargeIsNotToBeMadeAgain) {
  v1::GetSessionRequest request;
  request.set_session_id(std::string(5 << 20, 'a'));  // gRPC's limit is 4 MiB
  const absl::Status refused = client_->sessions().Get(request).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(RefusalOf(refused).reason, Reason::kMessageTooLarge);
  EXPECT_EQ(RetryAfter(refused), std::nullopt);
}

}  // namespace
}  // namespace tvq::client
