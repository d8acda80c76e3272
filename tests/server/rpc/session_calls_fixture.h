// A server over a real connection, with an engine over a fake model and a scripted store.
#ifndef TVQ_TESTS_SERVER_RPC_SESSION_CALLS_FIXTURE_H_
#define TVQ_TESTS_SERVER_RPC_SESSION_CALLS_FIXTURE_H_

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/services/server.h"
#include "tests/server/engine/harness.h"
#include "tests/server/rpc/mock_session_store.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq {

class SessionCallsTest : public testing::Test {
 protected:
  explicit SessionCallsTest(FakeOptions model = {}, const CallGateOptions& gate = {})
      : engine_(model) {
    auto server = Server::Start(engine_.engine.get(), &store_, {}, {.port = 0, .gate = gate});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                             grpc::InsecureChannelCredentials());
    sessions_ = v1::SessionService::NewStub(channel);
    generation_ = v1::GenerationService::NewStub(channel);
  }

  static SessionRecord Record() {
    return {.id = kId, .model = "fake", .version = 3, .position = 0};
  }

  // The next Acquire gives this lease.
  FakeLease* Expect(SessionRecord record = Record()) {
    auto lease = std::make_unique<FakeLease>(std::move(record), &log_);
    FakeLease* const raw = lease.get();
    EXPECT_CALL(store_, Acquire(testing::_))
        .WillOnce(testing::Return(
            testing::ByMove(absl::StatusOr<std::unique_ptr<Lease>>(std::move(lease)))));
    return raw;
  }

  static v1::AppendSessionRequest Feed(const std::string& key = "") {
    v1::AppendSessionRequest request;
    request.mutable_session()->set_session_id(kId);
    request.mutable_session()->set_idempotency_key(key);
    request.set_text("abc");
    return request;
  }

  grpc::Status Append(v1::AppendSessionResponse* response, const std::string& key = "") {
    grpc::ClientContext context;
    return sessions_->AppendSession(&context, Feed(key), response);
  }

  static v1::GenerateRequest Prompt(const std::string& key = "", int32_t max_tokens = 5) {
    v1::GenerateRequest request;
    request.mutable_session()->set_session_id(kId);
    request.mutable_session()->set_idempotency_key(key);
    request.set_text("abc");
    request.mutable_sampling()->set_max_tokens(max_tokens);
    request.mutable_sampling()->set_ignore_eos(true);
    return request;
  }

  // All messages merged.
  grpc::Status Generate(const v1::GenerateRequest& request, v1::GenerateResponse* all) {
    grpc::ClientContext context;
    const auto reader = generation_->Generate(&context, request);
    v1::GenerateResponse message;
    while (reader->Read(&message)) all->MergeFrom(message);
    return reader->Finish();
  }

  static int Tokens(const v1::GenerateResponse& response) {
    int count = 0;
    for (const v1::SampleDelta& delta : response.deltas()) count += delta.token_ids_size();
    return count;
  }

  Harness engine_;
  testing::NiceMock<MockSessionStore> store_;
  FakeLease::Log log_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_RPC_SESSION_CALLS_FIXTURE_H_
