// Client::GenerateWithState: a state in, the output, and the state after it out.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "client/cpp/client.h"
#include "tests/client/cpp/fake_server.h"

namespace tvq::client {
namespace {

class StateTest : public testing::Test {
 protected:
  FakeServer server_;
  const std::unique_ptr<Client> client_ = *Client::Connect(server_.address());
};

absl::StatusOr<std::string> Nothing() { return std::string(); }

// Answers the prompt, then the state that came with a "!" at its end.
grpc::Status Shout(grpc::ServerContext*, StateReaderWriter* stream) {
  v1::GenerateWithStateRequest request;
  EXPECT_TRUE(stream->Read(&request));
  const std::string prompt = request.generate().text();
  std::string state = request.chunk();
  while (stream->Read(&request)) state += request.chunk();
  v1::GenerateWithStateResponse response;
  response.mutable_generate()->add_deltas()->set_text(prompt);
  stream->Write(response);
  response.Clear();
  response.set_chunk(state + "!");
  response.set_total_bytes(static_cast<int64_t>(state.size()) + 1);
  stream->Write(response);
  return grpc::Status::OK;
}

TEST_F(StateTest, SendsTheStateAndReceivesTheOneAfter) {
  server_.generation.generate_with_state = Shout;
  v1::GenerateRequest request;
  request.set_text("Once");
  int pieces = 0;
  const auto stream = client_->GenerateWithState(request, [&]() -> absl::StatusOr<std::string> {
    return std::string(++pieces <= 3 ? "state" : "");
  });
  EXPECT_EQ(pieces, 0) << "nothing is sent before the first Next";
  v1::GenerateWithStateResponse response;
  ASSERT_TRUE(stream->Next(&response));
  EXPECT_EQ(response.generate().deltas(0).text(), "Once");
  ASSERT_TRUE(stream->Next(&response));
  EXPECT_EQ(response.chunk(), "statestatestate!");
  EXPECT_EQ(response.total_bytes(), 16);
  EXPECT_FALSE(stream->Next(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StateTest, StartsFromAnEmptyContextWithoutAState) {
  server_.generation.generate_with_state = Shout;
  const auto stream = client_->GenerateWithState({}, Nothing);
  v1::GenerateWithStateResponse response;
  ASSERT_TRUE(stream->Next(&response));
  ASSERT_TRUE(stream->Next(&response));
  EXPECT_EQ(response.chunk(), "!");
}

TEST_F(StateTest, RefusedWhileSendingReturnsTheServersReason) {
  server_.generation.generate_with_state = [](auto*, auto*) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "corrupt");
  };
  const auto stream =
      client_->GenerateWithState({}, [] { return std::string(size_t{1} << 20, 'x'); });
  v1::GenerateWithStateResponse response;
  EXPECT_FALSE(stream->Next(&response));
  EXPECT_TRUE(absl::IsInvalidArgument(stream->Finish()));
}

TEST_F(StateTest, FailingSourceCancelsTheCall) {
  std::atomic<bool> cancelled = false;
  server_.generation.generate_with_state = [&](auto* context, auto* stream) {
    v1::GenerateWithStateRequest request;
    while (stream->Read(&request)) {
    }
    cancelled = context->IsCancelled();
    return grpc::Status::OK;
  };
  const auto stream = client_->GenerateWithState(
      {}, []() -> absl::StatusOr<std::string> { return absl::NotFoundError("no such file"); });
  v1::GenerateWithStateResponse response;
  EXPECT_FALSE(stream->Next(&response));
  EXPECT_TRUE(absl::IsNotFound(stream->Finish()));
  while (!cancelled) std::this_thread::yield();
}

TEST_F(StateTest, CancelFromAnotherThreadEndsIt) {
  std::atomic<bool> waiting = false;
  server_.generation.generate_with_state = [&](auto* context, auto*) {
    waiting = true;
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  };
  const auto stream = client_->GenerateWithState({}, Nothing);
  std::thread canceller([&] {
    while (!waiting) std::this_thread::yield();
    stream->Cancel();
  });
  v1::GenerateWithStateResponse response;
  EXPECT_FALSE(stream->Next(&response));
  EXPECT_TRUE(absl::IsCancelled(stream->Finish()));
  canceller.join();
}

}  // namespace
}  // namespace tvq::client
