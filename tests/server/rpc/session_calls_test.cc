// Calls on sessions over a real connection, with an engine over a fake model and a scripted store.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/calls/session_use.h"
#include "server/rpc/services/server.h"
#include "server/rpc/wire/status.h"
#include "tests/server/engine/harness.h"
#include "tests/server/rpc/mock_session_store.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq {
namespace {

using testing::_;
using testing::AllOf;
using testing::ByMove;
using testing::ElementsAre;
using testing::Field;
using testing::FieldsAre;
using testing::HasSubstr;
using testing::NiceMock;
using testing::Pair;
using testing::Return;
using testing::UnorderedElementsAre;

class SessionCallsTest : public testing::Test {
 protected:
  explicit SessionCallsTest(FakeOptions model = {}) : engine_(model) {
    auto server = Server::Start(engine_.engine.get(), &store_, {}, {.port = 0});
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
  FakeLease* Expect() {
    auto lease = std::make_unique<FakeLease>(Record(), &log_);
    FakeLease* const raw = lease.get();
    EXPECT_CALL(store_, Acquire(_))
        .WillOnce(Return(ByMove(absl::StatusOr<std::unique_ptr<Lease>>(std::move(lease)))));
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
  NiceMock<MockSessionStore> store_;
  FakeLease::Log log_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
};

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

TEST_F(SessionCallsTest, RefusedRequestsLetGoOfTheSession) {
  Expect();
  v1::GenerateRequest request = Prompt();
  request.mutable_sampling()->set_top_p(2);
  v1::GenerateResponse response;
  EXPECT_EQ(Generate(request, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(log_.released, 1);
  EXPECT_EQ(log_.commits, 0);
}

// However the client's clock and the server's stand: half of the deadlines are rounded on their
// way.
TEST_F(SessionCallsTest, DeadlineCommitsNothing) {
  for (const int milliseconds : {100, 333, 1001, 1009}) {
    Expect();
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
  EXPECT_EQ(log_.released, 4);
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
              UnorderedElementsAre(Pair(kRetryPushbackTrailer, "-1")));
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
    EXPECT_GT(std::stoll(std::string(first->second.data(), first->second.size())),
              kRetryPushbackMs);
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
  EXPECT_THAT(refused.error_message(), HasSubstr("too many snapshots"));
  EXPECT_EQ(calls.back().context.GetServerTrailingMetadata().count(kRetryPushbackTrailer), 1u);
  EXPECT_GT(calls.size(), 1U) << "one has room";
  for (Waiting& waiting : calls) waiting.context.TryCancel();
  calls.pop_back();
  for (Waiting& waiting : calls) (void)waiting.call->Finish();
}

// Takes nothing: there is no memory, or it is too large.
class FullUpload : public SnapshotUpload {
 public:
  explicit FullUpload(bool too_large) : too_large_(too_large) {}
  absl::Status Add(std::span<const char>) override {
    return absl::ResourceExhaustedError("snapshot: no");
  }
  bool too_large() const override { return too_large_; }

 private:
  const bool too_large_;
};

TEST_F(SessionCallsTest, RefusedUploadsSayWhetherToTryAgain) {
  for (const bool too_large : {false, true}) {
    ON_CALL(store_, NewUpload()).WillByDefault([=] {
      return std::make_unique<FullUpload>(too_large);
    });
    const std::string wanted = too_large ? "-1" : absl::StrCat(kRetryPushbackMs);
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
  EXPECT_CALL(store_, Transcript("", kId))
      .WillOnce(Return(SessionTranscript{.view = {.record = Record()}, .ids = {1, 2, 3}}));
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
  EXPECT_THAT(server_->call_counts().rejected,
              UnorderedElementsAre(FieldsAre("capacity", 1), FieldsAre("invalid_argument", 2)));
}

// Lets Get of the store wait until the test opens it.
class Gate {
 public:
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void WaitFor(int waiting) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= waiting; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

// Many GetSession calls and how they ended.
class ManyGets {
 public:
  ManyGets(v1::SessionService::Stub& stub, int count) : calls_(count) {
    for (Call& call : calls_) {
      call.request.set_session_id(kId);
      stub.async()->GetSession(&call.context, &call.request, &call.response,
                               [this, &call](const grpc::Status& status) { Done(call, status); });
    }
  }

  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_ == static_cast<int>(calls_.size()); });
  }

  // Those that were refused, all of them with a time to try again.
  int Refused() {
    std::unique_lock lock(mutex_);
    int count = 0;
    for (const Call& call : calls_) {
      if (call.code != grpc::StatusCode::RESOURCE_EXHAUSTED) continue;
      EXPECT_EQ(call.context.GetServerTrailingMetadata().count(kRetryPushbackTrailer), 1u);
      ++count;
    }
    return count;
  }
  void WaitForOne() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_ > 0; });
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::GetSessionRequest request;
    v1::GetSessionResponse response;
    grpc::StatusCode code = grpc::StatusCode::UNKNOWN;
  };

  void Done(Call& call, const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    call.code = status.error_code();
    ++done_;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int done_ = 0;
  std::vector<Call> calls_;
};

TEST_F(SessionCallsTest, StoreThatHangsDoesNotHoldUpTheRest) {
  Gate gate;
  ON_CALL(store_, Get(_, _)).WillByDefault([&](const std::string&, const std::string&) {
    gate.Pass();
    return absl::StatusOr<SessionView>(absl::NotFoundError("none"));
  });
  ManyGets gets(*sessions_, 20);
  gate.WaitFor(16);
  v1::GenerateRequest request = Prompt();
  request.clear_session();
  v1::GenerateResponse response;
  EXPECT_TRUE(Generate(request, &response).ok());
  gate.Open();
  gets.Wait();
  EXPECT_EQ(gets.Refused(), 0);
}

TEST_F(SessionCallsTest, CallsThatWaitForTheStoreAreBounded) {
  Gate gate;
  ON_CALL(store_, Get(_, _)).WillByDefault([&](const std::string&, const std::string&) {
    gate.Pass();
    return absl::StatusOr<SessionView>(absl::NotFoundError("none"));
  });
  ManyGets gets(*sessions_, 5000);
  gets.WaitForOne();  // which can only have been refused
  gate.Open();
  gets.Wait();
  EXPECT_GT(gets.Refused(), 0);
  EXPECT_LT(gets.Refused(), 5000);
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
