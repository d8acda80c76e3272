// How many calls may be open, and what they keep.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/services/server.h"
#include "tests/server/engine/harness.h"
#include "tests/server/rpc/mock_session_store.h"
#include "tests/server/rpc/narrow_channel.h"
#include "tests/server/rpc/two_keys.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/model.grpc.pb.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq {
namespace {

using testing::NiceMock;

TEST(OpenCallsTest, ACallerLeavesRoomForOthers) {
  Harness engine;
  NiceMock<MockSessionStore> store;
  ON_CALL(store, NewUpload()).WillByDefault([] { return std::make_unique<NoUpload>(); });
  const TwoKeys keys;
  const auto server = Server::Start(
      engine.engine.get(), &store, {},
      {.port = 0, .max_open_calls = 16, .connections = {.max_streams = 8}, .gate = keys.gate()});
  ASSERT_TRUE(server.ok()) << server.status();
  struct Upload {
    explicit Upload(int port)
        : stub(grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                         grpc::InsecureChannelCredentials(), OwnConnection())) {
      UseKey(kAnasKey, &context);
      call = stub.ImportSession(&context, &response);
    }
    ~Upload() {
      context.TryCancel();
      (void)call->Finish();
    }
    static grpc::ChannelArguments OwnConnection() {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      return arguments;
    }
    grpc::ClientContext context;
    v1::ImportSessionResponse response;
    v1::SessionService::Stub stub;
    std::unique_ptr<grpc::ClientWriter<v1::ImportSessionRequest>> call;
  };
  // Of 16 a caller may have 14.
  std::vector<std::unique_ptr<Upload>> uploads;
  while (uploads.size() < 14) {
    uploads.push_back(std::make_unique<Upload>((*server)->port()));
    v1::ImportSessionRequest first;
    first.mutable_create();
    ASSERT_TRUE(uploads.back()->call->Write(first));
  }
  const auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", (*server)->port()),
                                           grpc::InsecureChannelCredentials());
  const auto models = v1::ModelService::NewStub(channel);
  const auto ask = [&](const char* key) {
    grpc::ClientContext context;
    UseKey(key, &context);
    v1::GetServerInfoResponse response;
    return models->GetServerInfo(&context, {}, &response);
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  grpc::Status status = ask(kAnasKey);
  while (status.ok() && std::chrono::steady_clock::now() < until) status = ask(kAnasKey);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_THAT(status.error_message(), testing::HasSubstr("open calls take 14 places, 14 of them"));
  const grpc::Status of_other = ask(kBensKey);
  EXPECT_TRUE(of_other.ok()) << of_other.error_message();
  uploads.pop_back();
  while (!status.ok() && std::chrono::steady_clock::now() < until) status = ask(kAnasKey);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

// For as long as their answers lie there. Of clients without a key 16 MiB may be under way, less
// than the requests of all calls. What came between two looks may be taken for under way: one each
// 25 ms, so a look may be 0.4 s late.
TEST(OpenCallsTest, DoNotKeepTheirRequests) {
  constexpr int kCalls = 48;
  Harness engine;
  const auto server =
      Server::Start(engine.engine.get(), nullptr, {},
                    {.port = 0, .max_message_bytes = 2 << 20, .max_connection_bytes = 32 << 20});
  ASSERT_TRUE(server.ok()) << server.status();
  v1::GenerateRequest request;
  request.set_text("abc");
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(
      10000, std::string(1 << 20, 'x'));
  const auto channel = NarrowChannel((*server)->port());
  grpc::ClientContext first;  // a client that has had an answer may send much
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(v1::ModelService::NewStub(channel)->GetServerInfo(&first, {}, &info).ok());
  const auto stub = v1::GenerationService::NewStub(channel);
  std::vector<grpc::ClientContext> contexts(kCalls);
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> calls;
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (grpc::ClientContext& context : contexts) {
    calls.push_back(stub->Generate(&context, request));
    while (engine.engine->stats().requests_finished < std::ssize(calls) &&
           std::chrono::steady_clock::now() < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  for (const auto& call : calls) {
    for (v1::GenerateResponse message; call->Read(&message);) continue;
    const grpc::Status status = call->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
}

}  // namespace
}  // namespace tvq
