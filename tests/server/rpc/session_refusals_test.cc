// Calls on sessions that are refused: what they leave, and whether to try again.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/rpc/wire/status.h"
#include "tests/server/rpc/session_calls_fixture.h"

namespace tvq {
namespace {

using testing::_;
using testing::FieldsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::Return;
using testing::UnorderedElementsAre;

TEST_F(SessionCallsTest, RefusedRequestsLetGoOfTheSession) {
  Expect();
  v1::GenerateRequest request = Prompt();
  request.mutable_sampling()->set_top_p(2);
  v1::GenerateResponse response;
  EXPECT_EQ(Generate(request, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(log_.released, 1);
  EXPECT_EQ(log_.commits, 0);
}

TEST_F(SessionCallsTest, FullTierSaysWhenToTryAgain) {
  EXPECT_CALL(store_, Create(_, _)).WillOnce(Return(absl::ResourceExhaustedError("full")));
  grpc::ClientContext context;
  v1::CreateSessionResponse response;
  const grpc::Status status = sessions_->CreateSession(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(context.GetServerTrailingMetadata().count(kRetryPushbackTrailer), 1u);
}

// Of which none fits into the engine's million bytes with more than one token.
class LargeStatesTest : public SessionCallsTest {
 protected:
  LargeStatesTest() : SessionCallsTest({.bytes_per_token = 600'000}) {}
};

TEST_F(LargeStatesTest, AppendThatNeverFitsIsNotTriedAgain) {
  Expect();
  grpc::ClientContext context;
  v1::AppendSessionResponse response;
  const grpc::Status status = sessions_->AppendSession(&context, Feed(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(context.GetServerTrailingMetadata(),
              testing::Contains(Pair(kRetryPushbackTrailer, "-1")));
  EXPECT_EQ(log_.released, 1);
}

// Who may call too often hears when, from the gate alone.
TEST_F(SessionCallsTest, AppendAboveTheRateSaysWhenOnce) {
  auto server = Server::Start(engine_.engine.get(), &store_, {},
                              {.port = 0, .gate = {.max_requests_per_second = 0.01}});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto sessions = v1::SessionService::NewStub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", (*server)->port()), grpc::InsecureChannelCredentials()));
  EXPECT_CALL(store_, Acquire(_)).WillRepeatedly([](const SessionCall&) {
    return absl::AbortedError("busy");
  });
  grpc::StatusCode code = grpc::StatusCode::OK;
  for (int i = 0; i < 100 && code != grpc::StatusCode::RESOURCE_EXHAUSTED; ++i) {
    grpc::ClientContext context;
    v1::AppendSessionResponse response;
    code = sessions->AppendSession(&context, Feed(), &response).error_code();
    if (code != grpc::StatusCode::RESOURCE_EXHAUSTED) continue;
    const auto [first, last] =
        context.GetServerTrailingMetadata().equal_range(kRetryPushbackTrailer);
    ASSERT_EQ(std::distance(first, last), 1);
    EXPECT_GT(std::stoll(std::string(first->second.data(), first->second.size())), kRetryAfterMs);
  }
  EXPECT_EQ(code, grpc::StatusCode::RESOURCE_EXHAUSTED);
}

// The one value of the trailer.
std::string PushbackOf(const grpc::ClientContext& context) {
  const auto [first, last] = context.GetServerTrailingMetadata().equal_range(kRetryPushbackTrailer);
  return std::distance(first, last) == 1 ? std::string(first->second.data(), first->second.size())
                                         : "not one";
}

// However slowly the states come that they belong to.
TEST_F(SessionCallsTest, RequestsThatWaitForTheirStatesAreNotKeptWithoutEnd) {
  ON_CALL(store_, NewUpload()).WillByDefault([] { return std::make_unique<NoUpload>(); });
  struct Waiting {
    grpc::ClientContext context;
    std::unique_ptr<
        grpc::ClientReaderWriter<v1::GenerateWithStateRequest, v1::GenerateWithStateResponse>>
        call;
  };
  v1::GenerateWithStateRequest request;
  request.mutable_generate()->set_text(std::string(size_t{15} << 20, 'x'));
  std::deque<Waiting> calls;
  grpc::Status refused;
  while (refused.ok() && calls.size() < 100) {
    Waiting& waiting = calls.emplace_back();
    waiting.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    waiting.call = generation_->GenerateWithState(&waiting.context);
    waiting.call->Write(request);
    // Until it is refused or, most likely, waits for the state.
    for (int i = 0; i < 20 && server_->call_counts().rejected.empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (!server_->call_counts().rejected.empty()) refused = waiting.call->Finish();
  }
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("chunk: snapshots on their way in take"));
  EXPECT_EQ(calls.back().context.GetServerTrailingMetadata().count(kRetryPushbackTrailer), 1u);
  EXPECT_GT(calls.size(), 1U) << "one has room";
  for (Waiting& waiting : calls) waiting.context.TryCancel();
  calls.pop_back();
  for (Waiting& waiting : calls) (void)waiting.call->Finish();
}

// Takes nothing: there is no memory, or it is too large.
class FullUpload : public SnapshotUpload {
 public:
  explicit FullUpload(Reason reason) : reason_(reason) {}
  absl::Status Add(std::span<const char>) override { return Refused(reason_, "snapshot", "no"); }

 private:
  const Reason reason_;
};

TEST_F(SessionCallsTest, RefusedUploadsSayWhetherToTryAgain) {
  for (const auto& [reason, wanted] : std::vector<std::pair<Reason, std::string>>{
           {Reason::kMemoryFull, absl::StrCat(kRetryAfterMs)}, {Reason::kSnapshotTooLarge, "-1"}}) {
    ON_CALL(store_, NewUpload()).WillByDefault([reason = reason] {
      return std::make_unique<FullUpload>(reason);
    });
    {
      grpc::ClientContext context;
      v1::ImportSessionResponse response;
      const auto call = sessions_->ImportSession(&context, &response);
      v1::ImportSessionRequest request;
      request.mutable_create();
      request.set_chunk("x");
      call->Write(request);
      EXPECT_EQ(call->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
      EXPECT_EQ(PushbackOf(context), wanted);
    }
    grpc::ClientContext context;
    const auto call = generation_->GenerateWithState(&context);
    v1::GenerateWithStateRequest request;
    request.mutable_generate()->set_text("x");
    request.set_chunk("x");
    call->Write(request);
    v1::GenerateWithStateResponse response;
    EXPECT_FALSE(call->Read(&response));
    EXPECT_EQ(call->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(PushbackOf(context), wanted);
  }
}

// Not when all of the state has come, which may take long.
TEST_F(SessionCallsTest, TextAboveTheLimitIsRefusedAheadOfTheState) {
  ON_CALL(store_, NewUpload()).WillByDefault([] { return nullptr; });
  auto server = Server::Start(engine_.engine.get(), &store_, {},
                              {.port = 0, .limits = {.max_prompt_tokens = 10}});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto generation = v1::GenerationService::NewStub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", (*server)->port()), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto call = generation->GenerateWithState(&context);
  v1::GenerateWithStateRequest request;
  request.mutable_generate()->set_text(std::string(100, 'x'));
  ASSERT_TRUE(call->Write(request));
  v1::GenerateWithStateResponse response;
  EXPECT_FALSE(call->Read(&response));
  const grpc::Status status = call->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("text: has 100 bytes"));
}

TEST_F(SessionCallsTest, EveryRefusalIsCountedOnce) {
  EXPECT_CALL(store_, Create(_, _)).WillOnce(Return(absl::ResourceExhaustedError("full")));
  grpc::ClientContext create, get, import;
  v1::CreateSessionResponse created;
  EXPECT_FALSE(sessions_->CreateSession(&create, {}, &created).ok());
  v1::GetSessionResponse got;
  EXPECT_FALSE(sessions_->GetSession(&get, {}, &got).ok());
  v1::ImportSessionResponse imported;
  const auto writer = sessions_->ImportSession(&import, &imported);
  writer->WritesDone();
  EXPECT_FALSE(writer->Finish().ok());
  EXPECT_THAT(
      server_->call_counts().rejected,
      UnorderedElementsAre(FieldsAre(Reason::kMemoryFull, 1), FieldsAre(Reason::kValueMissing, 1),
                           FieldsAre(Reason::kMessageInvalid, 1)));
}

}  // namespace
}  // namespace tvq
