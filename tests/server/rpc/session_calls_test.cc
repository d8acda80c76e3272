// Calls on sessions: what they commit, and what their retries are answered.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/calls/session_use.h"
#include "tests/server/rpc/session_calls_fixture.h"

namespace tvq {
namespace {

using testing::_;
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::Return;

TEST_F(SessionCallsTest, AppendCommitsWhatItFed) {
  Expect();
  v1::AppendSessionResponse response;
  const grpc::Status status = Append(&response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.session().version(), 4);
  EXPECT_EQ(response.session().position(), 3);
  EXPECT_EQ(response.tokens(), 3);
  EXPECT_EQ(log_.tokens, Ids("abc"));
  EXPECT_EQ(log_.reply, "");
  EXPECT_EQ(log_.released, 1);
}

class BegunSessionCallsTest : public SessionCallsTest {
 protected:
  BegunSessionCallsTest() : SessionCallsTest({.add_bos_token = true}) {}

  static std::vector<int32_t> Begun(std::string_view text) {
    std::vector<int32_t> ids = Ids(text);
    ids.insert(ids.begin(), kEos);
    return ids;
  }
};

TEST_F(BegunSessionCallsTest, EmptySessionBeginsWithTheModelsId) {
  Expect();
  v1::AppendSessionResponse appended;
  ASSERT_TRUE(Append(&appended).ok());
  EXPECT_EQ(log_.tokens, Begun("abc"));
  EXPECT_EQ(appended.tokens(), 4);
  EXPECT_EQ(appended.session().position(), 4);

  Expect();
  v1::GenerateRequest request = Prompt();
  request.mutable_sampling()->set_prompt_logprobs(0);
  request.mutable_sampling()->set_echo(true);
  v1::GenerateResponse generated;
  ASSERT_TRUE(Generate(request, &generated).ok());
  EXPECT_EQ(generated.session().position(), 4 + 5);
  EXPECT_EQ(generated.usage().prompt_tokens(), 4);
  ASSERT_EQ(generated.prompt_logprobs_size(), 4);
  EXPECT_EQ(generated.prompt_logprobs(0).token().token_id(), kEos);
  EXPECT_FALSE(generated.prompt_logprobs(0).has_logprob());
  EXPECT_TRUE(generated.prompt_logprobs(1).has_logprob());
  std::string text;
  for (const v1::SampleDelta& delta : generated.deltas()) text += delta.text();
  EXPECT_THAT(text, testing::StartsWith("abc"));
}

TEST_F(BegunSessionCallsTest, SessionThatWasMadeWithoutItDoesNot) {
  SessionRecord without = Record();
  without.add_special_tokens = false;
  Expect(without);
  v1::AppendSessionResponse appended;
  ASSERT_TRUE(Append(&appended).ok());
  EXPECT_EQ(log_.tokens, Ids("abc"));
  Expect(without);
  v1::AppendSessionRequest asks = Feed();
  asks.set_add_special_tokens(true);
  grpc::ClientContext context;
  ASSERT_TRUE(sessions_->AppendSession(&context, asks, &appended).ok());
  EXPECT_EQ(log_.tokens, Begun("abc"));
}

TEST_F(BegunSessionCallsTest, SessionThatHoldsTokensGoesOn) {
  SessionRecord later = Record();
  later.position = 1;
  Expect(later);
  v1::AppendSessionResponse appended;
  ASSERT_TRUE(Append(&appended).ok());
  EXPECT_EQ(log_.tokens, Ids("abc"));
}

TEST_F(BegunSessionCallsTest, ScoreCountsTheTextAlone) {
  for (const bool add : {true, false}) {
    Expect();
    v1::ScoreRequest request;
    request.mutable_session()->set_session_id(kId);
    request.set_text("abc");
    request.set_add_special_tokens(add);
    grpc::ClientContext context;
    const auto reader = generation_->Score(&context, request);
    v1::ScoreResponse all, message;
    while (reader->Read(&message)) all.MergeFrom(message);
    ASSERT_TRUE(reader->Finish().ok());
    EXPECT_EQ(log_.tokens, add ? Begun("abc") : Ids("abc"));
    EXPECT_EQ(all.session().position(), add ? 4 : 3);
    EXPECT_EQ(all.tokens_size(), 3);
    EXPECT_EQ(all.tokens(0).token().token(), "a");
    EXPECT_EQ(all.tokens(0).has_logprob(), add);
    EXPECT_EQ(all.summary().tokens(), 3);
    EXPECT_EQ(all.summary().scored_tokens(), add ? 3 : 2);
    EXPECT_EQ(all.summary().bytes(), add ? 3 : 2);
  }
}

TEST_F(BegunSessionCallsTest, TokenizeHasTheTokensOfABeginning) {
  v1::TokenizeRequest request;
  request.set_text("abc");
  const auto ids = [&] {
    grpc::ClientContext context;
    v1::TokenizeResponse response;
    EXPECT_TRUE(generation_->Tokenize(&context, request, &response).ok());
    return std::vector<int32_t>(response.token_ids().begin(), response.token_ids().end());
  };
  EXPECT_EQ(ids(), Begun("abc"));
  request.set_add_special_tokens(false);
  EXPECT_EQ(ids(), Ids("abc"));
  request.set_add_special_tokens(true);
  request.set_text("");
  EXPECT_EQ(ids(), Begun(""));
}

TEST_F(SessionCallsTest, CallEndsWithTheStatusOfACommitThatFails) {
  Expect()->outcome = absl::ResourceExhaustedError("the disk is full");
  v1::AppendSessionResponse appended;
  EXPECT_EQ(Append(&appended).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  Expect()->outcome = absl::UnavailableError("no Redis");
  v1::GenerateResponse generated;
  const grpc::Status status = Generate(Prompt(), &generated);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "no Redis");
  EXPECT_FALSE(generated.has_usage());
  EXPECT_EQ(log_.released, 2);
}

TEST_F(SessionCallsTest, NothingIsComputedThatHasNoRoom) {
  const int64_t calls = engine_.model->calls;
  Expect()->room = absl::ResourceExhaustedError("no room for a state");
  v1::GenerateResponse generated;
  EXPECT_EQ(Generate(Prompt(), &generated).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(log_.reserved, 3 + 5) << "the prompt and max_tokens";
  Expect()->room = absl::ResourceExhaustedError("no room for a state");
  v1::AppendSessionResponse appended;
  EXPECT_EQ(Append(&appended).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(log_.reserved, 3);
  EXPECT_EQ(log_.released, 2);
  EXPECT_EQ(log_.commits, 0);
  EXPECT_EQ(engine_.model->calls, calls);
}

TEST_F(SessionCallsTest, LastMessageSaysWhereTheSessionIs) {
  Expect();
  v1::GenerateResponse all;
  const grpc::Status status = Generate(Prompt(), &all);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Tokens(all), 5);
  EXPECT_EQ(all.session().version(), 4);
  EXPECT_EQ(all.session().position(), 3 + 5);
  EXPECT_EQ(log_.tokens.size(), 8u);
}

TEST_F(SessionCallsTest, ReplyThatWasKeptIsRepeatedWithoutComputing) {
  Expect();
  v1::GenerateResponse first;
  ASSERT_TRUE(Generate(Prompt("key"), &first).ok());
  const int64_t calls = engine_.model->calls;
  Expect()->kept = log_.reply;
  v1::GenerateResponse second;
  const grpc::Status status = Generate(Prompt("key"), &second);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Tokens(second), 5);
  EXPECT_EQ(second.usage().SerializeAsString(), first.usage().SerializeAsString());
  EXPECT_EQ(second.session().SerializeAsString(), first.session().SerializeAsString());
  EXPECT_EQ(engine_.model->calls, calls);
  EXPECT_EQ(log_.commits, 1);
  EXPECT_EQ(log_.released, 2);
}

TEST_F(SessionCallsTest, RetryIsKnownByItsContent) {
  std::vector<uint64_t> hashes;
  EXPECT_CALL(store_, Acquire(_)).WillRepeatedly([&](const SessionCall& call) {
    hashes.push_back(call.request_hash);
    return absl::AbortedError("busy");
  });
  v1::AppendSessionResponse appended;
  v1::GenerateResponse generated;
  Append(&appended, "key");
  Append(&appended, "key");
  Generate(Prompt("key"), &generated);
  Generate(Prompt("key", 6), &generated);
  ASSERT_EQ(hashes.size(), 4U);
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(std::set<uint64_t>(hashes.begin(), hashes.end()).size(), 3U);
}

TEST_F(SessionCallsTest, DamagedReplyIsDataLoss) {
  for (const char* const kept : {"", "?", "=\x0a\x7f", "!\x0a\x7f"}) {
    Expect()->kept = kept;
    v1::AppendSessionResponse appended;
    EXPECT_EQ(Append(&appended, "key").error_code(), grpc::StatusCode::DATA_LOSS) << kept;
    Expect()->kept = kept;
    v1::GenerateResponse generated;
    EXPECT_EQ(Generate(Prompt("key"), &generated).error_code(), grpc::StatusCode::DATA_LOSS);
  }
}

TEST_F(SessionCallsTest, KeepsRepliesUpToWhatTheStoreKeeps) {
  for (const size_t size : {kMaxReplyBytes - 1, kMaxReplyBytes}) {
    Expect();
    auto use = SessionUse::Open(&store_, {.id = kId, .idempotency_key = "key"}, false);
    ASSERT_TRUE(use.ok()) << use.status();
    (*use)->Keep({});
    ASSERT_TRUE((*use)->Commit(std::string(size, 'x')).ok());
    const bool whole = size < kMaxReplyBytes;
    EXPECT_EQ(log_.reply.front(), whole ? '=' : '!');
    EXPECT_EQ(log_.reply.size() == kMaxReplyBytes, whole);
  }
}

TEST_F(SessionCallsTest, ReplyTooLargeToKeepSaysWhereTheSessionIs) {
  Expect();
  v1::GenerateRequest request = Prompt("key", 4000);
  request.mutable_sampling()->set_logprobs(20);  // some 300 bytes a token
  v1::GenerateResponse first;
  ASSERT_TRUE(Generate(request, &first).ok());
  EXPECT_LT(log_.reply.size(), 200u);
  Expect()->kept = log_.reply;
  v1::GenerateResponse second;
  const grpc::Status status = Generate(request, &second);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("version 4"), HasSubstr("position 4003")));
}

TEST_F(SessionCallsTest, CancelledCallCommitsOnlyIfItWasAsked) {
  for (const bool keep : {false, true}) {
    log_ = {};
    Expect();
    v1::GenerateRequest request = Prompt("", 100'000'000);
    request.mutable_session()->set_commit_on_cancel(keep);
    grpc::ClientContext context;
    const auto reader = generation_->Generate(&context, request);
    v1::GenerateResponse message;
    ASSERT_TRUE(reader->Read(&message));
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
    server_->Shutdown(std::chrono::steady_clock::now() + std::chrono::seconds(60));
    EXPECT_EQ(log_.commits, keep ? 1 : 0);
    EXPECT_EQ(log_.released, 1);
    if (keep) break;
    auto server = Server::Start(engine_.engine.get(), &store_, {}, {.port = 0});
    ASSERT_TRUE(server.ok());
    server_ = *std::move(server);
    generation_ = v1::GenerationService::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials()));
  }
}

// However the client's clock and the server's stand: half of the deadlines are rounded on their
// way. On a busy machine a deadline may pass before the session is asked for.
TEST_F(SessionCallsTest, DeadlineCommitsNothing) {
  std::atomic<int> acquired = 0;
  EXPECT_CALL(store_, Acquire(testing::_))
      .WillRepeatedly([&](const SessionCall&) -> absl::StatusOr<std::unique_ptr<Lease>> {
        ++acquired;
        return std::make_unique<FakeLease>(Record(), &log_);
      });
  for (const int milliseconds : {100, 333, 1001, 1009}) {
    v1::GenerateRequest request = Prompt("", 100'000'000);
    request.mutable_session()->set_commit_on_cancel(true);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(milliseconds));
    const auto reader = generation_->Generate(&context, request);
    v1::GenerateResponse message;
    while (reader->Read(&message)) continue;
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  server_->Shutdown(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  EXPECT_EQ(log_.commits, 0);
  EXPECT_GT(acquired, 0);
  EXPECT_EQ(log_.released, acquired);
}

TEST_F(SessionCallsTest, CreateNamesTheModel) {
  EXPECT_CALL(store_, Create("", Field(&CreateOptions::model, "fake")))
      .WillOnce(Return(SessionView{.record = Record()}));
  grpc::ClientContext context;
  v1::CreateSessionResponse response;
  const grpc::Status status = sessions_->CreateSession(&context, {}, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.session().id(), kId);
}

TEST_F(SessionCallsTest, TranscriptAndSessionAreOfOneVersion) {
  EXPECT_CALL(store_, Get(_, _)).Times(0);
  SessionTranscript transcript{.view = {.record = Record()}};
  transcript.tokens.Append(std::vector<int32_t>{1, 2, 3});
  EXPECT_CALL(store_, Transcript("", kId)).WillOnce(Return(transcript));
  grpc::ClientContext context;
  v1::GetSessionRequest request;
  request.set_session_id(kId);
  request.set_include_transcript(true);
  request.set_transcript_start(1);
  v1::GetSessionResponse response;
  const grpc::Status status = sessions_->GetSession(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.session().version(), 3);
  EXPECT_THAT(response.transcript(), ElementsAre(2, 3));
}

TEST(ServerWithoutSessionsTest, SaysSo) {
  Harness engine;
  auto server = Server::Start(engine.engine.get(), nullptr, {}, {.port = 0});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", (*server)->port()),
                                           grpc::InsecureChannelCredentials());
  const auto generation = v1::GenerationService::NewStub(channel);
  v1::GenerateRequest generate;
  generate.mutable_session()->set_session_id(kId);
  grpc::ClientContext first;
  const grpc::Status status = generation->Generate(&first, generate)->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("session"));
  grpc::ClientContext second;
  EXPECT_EQ(generation->GenerateWithState(&second)->Finish().error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace tvq
