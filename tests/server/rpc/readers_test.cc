// Clients that are slow to take what a call writes, or never do: while the server runs, and when it
// stops.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/services/server.h"
#include "server/rpc/wire/wire.h"
#include "tests/server/engine/harness.h"
#include "tests/server/rpc/mock_session_store.h"
#include "tests/server/rpc/narrow_channel.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/model.grpc.pb.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq {
namespace {

using testing::_;
using testing::NiceMock;

// More than gRPC takes for a client that does not read.
constexpr int64_t kManyBytes = int64_t{64} << 20;

// Of which a stream lets all wait.
constexpr int32_t kFewTokens = 500;

// As many as one answer holds, of 5 bytes each.
constexpr int64_t kManyIds = int64_t{1} << 18;
constexpr int32_t kLargestId = std::numeric_limits<int32_t>::max();

SteadyTime In(std::chrono::hours time) { return std::chrono::steady_clock::now() + time; }

class ReadersTest : public testing::Test {
 protected:
  explicit ReadersTest(std::chrono::milliseconds stall_timeout,
                       int64_t max_answer_bytes = ServerOptions().max_answer_bytes)
      : engine_({}, Options(stall_timeout)) {
    ON_CALL(store_, Export(_, _)).WillByDefault([](auto&, auto&) { return NewZeros(kManyBytes); });
    ON_CALL(store_, ToSnapshot(_, _)).WillByDefault([](auto&, auto) {
      return NewZeros(kManyBytes);
    });
    ON_CALL(store_, Transcript(_, _)).WillByDefault([](auto&, auto&) {
      SessionTranscript transcript;
      transcript.tokens.Append(std::vector<int32_t>(kManyIds, kLargestId));
      return transcript;
    });
    ON_CALL(store_, NewUpload()).WillByDefault([] { return std::make_unique<NoUpload>(); });
    auto server = Server::Start(
        engine_.engine.get(), &store_, {},
        {.port = 0, .max_answer_bytes = max_answer_bytes, .stall_timeout = stall_timeout});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                   grpc::InsecureChannelCredentials());
  }

  std::unique_ptr<grpc::ClientReader<v1::ExportSessionResponse>> Export() {
    v1::ExportSessionRequest request;
    request.mutable_session()->set_session_id(kId);
    return v1::SessionService::NewStub(channel_)->ExportSession(&context_, request);
  }

  // Of which gRPC takes next to nothing before it is read.
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> Generate(
      v1::SamplingParams sampling, const std::string& text = "abc") {
    v1::GenerateRequest request;
    request.set_text(text);
    sampling.set_ignore_eos(true);
    *request.mutable_sampling() = std::move(sampling);
    const auto channel = NarrowChannel(server_->port());
    return v1::GenerationService::NewStub(channel)->Generate(&context_, request);
  }
  // Of so few tokens that it does not pause.
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> GenerateFew() {
    v1::SamplingParams sampling;
    sampling.set_max_tokens(kFewTokens);
    return Generate(std::move(sampling));
  }

  // A transcript of more than gRPC takes, of which nothing is read before Read; other stubs read by
  // themselves.
  class Transcript {
   public:
    Transcript(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext* context)
        : stub_(channel),
          call_(stub_.PrepareCall(context, "/tvq.v1.SessionService/GetSession", &queue_)) {
      v1::GetSessionRequest request;
      request.set_session_id(kId);
      request.set_include_transcript(true);
      const auto bytes = SerializeMessage(request);
      EXPECT_TRUE(bytes.ok()) << bytes.status();
      call_->StartCall(this);
      Wait();
      call_->WriteLast(*bytes, {}, this);
      Wait();
    }
    ~Transcript() {
      queue_.Shutdown();
      void* tag;
      bool ok;
      while (queue_.Next(&tag, &ok)) continue;
    }

    grpc::Status Read(v1::GetSessionResponse* response) {
      grpc::ByteBuffer bytes;
      call_->Read(&bytes, this);
      if (Wait()) {
        EXPECT_TRUE(ParseMessage(bytes, response).ok());
      }
      return Finish();
    }
    grpc::Status Finish() {
      grpc::Status status;
      call_->Finish(&status, this);
      Wait();
      return status;
    }

   private:
    bool Wait() {
      void* tag;
      bool ok = false;
      EXPECT_TRUE(queue_.Next(&tag, &ok));
      return ok;
    }

    grpc::CompletionQueue queue_;
    grpc::GenericStub stub_;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  };

  // How the server's only call ended; empty if it did not.
  std::string WaitForEnd() const {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < patience) {
      const auto finished = server_->call_counts().finished;
      if (!finished.empty()) return finished.front().code;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return "";
  }

  static EngineOptions Options(std::chrono::milliseconds paused_timeout) {
    EngineOptions options = SmallOptions();
    options.paused_timeout = paused_timeout;
    return options;
  }

  Harness engine_;
  NiceMock<MockSessionStore> store_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
};

class StalledReadersTest : public ReadersTest {
 protected:
  StalledReadersTest() : ReadersTest(std::chrono::milliseconds(50)) {}
};

TEST_F(StalledReadersTest, OfAnExportLoseTheCall) {
  const auto reader = Export();
  EXPECT_EQ(WaitForEnd(), "DEADLINE_EXCEEDED");
  context_.TryCancel();
  (void)reader->Finish();
}

TEST_F(StalledReadersTest, OfAStateLoseTheCall) {
  const auto stub = v1::GenerationService::NewStub(channel_);
  const auto call = stub->GenerateWithState(&context_);
  v1::GenerateWithStateRequest request;
  request.mutable_generate()->set_text("abc");
  request.mutable_generate()->mutable_sampling()->set_max_tokens(1);
  ASSERT_TRUE(call->Write(request));
  call->WritesDone();
  EXPECT_EQ(WaitForEnd(), "DEADLINE_EXCEEDED");
  context_.TryCancel();
  (void)call->Finish();
}

// Once the request is over, of which the engine watches the reader.
TEST_F(StalledReadersTest, OfTokensLoseTheCall) {
  const auto reader = GenerateFew();
  EXPECT_EQ(WaitForEnd(), "OK");                 // as far as the request goes
  server_->Shutdown(In(std::chrono::hours(1)));  // returns
  context_.TryCancel();
  (void)reader->Finish();
}

// No more tokens, but of more bytes: it pauses.
TEST_F(StalledReadersTest, OfAlternativesLoseTheRequest) {
  v1::SamplingParams sampling;
  sampling.set_max_tokens(kFewTokens);
  sampling.set_logprobs(20);
  const auto reader = Generate(std::move(sampling));
  EXPECT_EQ(WaitForEnd(), "DEADLINE_EXCEEDED");
  context_.TryCancel();
  (void)reader->Finish();
}

TEST_F(StalledReadersTest, OfTextLoseTheRequest) {
  v1::SamplingParams sampling;
  sampling.set_max_tokens(0);
  sampling.set_echo(true);
  sampling.set_n(64);
  const auto reader = Generate(std::move(sampling), std::string(8 << 10, 'a'));
  EXPECT_EQ(WaitForEnd(), "DEADLINE_EXCEEDED");
  context_.TryCancel();
  (void)reader->Finish();
}

TEST_F(StalledReadersTest, OfAnAnswerLoseTheCall) {
  Transcript transcript(channel_, &context_);
  EXPECT_EQ(WaitForEnd(), "OK");                 // as far as the method goes
  server_->Shutdown(In(std::chrono::hours(1)));  // returns
  context_.TryCancel();
  (void)transcript.Finish();
}

// Clients that let answers lie take no more memory than there is for all answers.
class ManyReadersTest : public ReadersTest {
 protected:
  ManyReadersTest() : ReadersTest(std::chrono::hours(1), int64_t{2400} << 10) {}
  ~ManyReadersTest() override {
    for (Reader& reader : readers_) {
      reader.context->TryCancel();
      (void)reader.call->Finish();
    }
  }

  struct Reader {
    std::unique_ptr<grpc::ClientContext> context = std::make_unique<grpc::ClientContext>();
    std::unique_ptr<grpc::ClientReader<v1::ExportSessionResponse>> call;
  };

  // Whether the server begins to send a snapshot, of which no more is read.
  bool BeginExport() {
    v1::ExportSessionRequest request;
    request.mutable_session()->set_session_id(kId);
    Reader reader;
    reader.call =
        v1::SessionService::NewStub(channel_)->ExportSession(reader.context.get(), request);
    v1::ExportSessionResponse message;
    if (reader.call->Read(&message)) {
      readers_.push_back(std::move(reader));
      return true;
    }
    const grpc::Status status = reader.call->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    return false;
  }

  std::vector<Reader> readers_;
};

TEST_F(ManyReadersTest, TakeNoMoreThanThereIsForAnswers) {
  ASSERT_TRUE(BeginExport());
  ASSERT_TRUE(BeginExport());
  EXPECT_FALSE(BeginExport());
  // What is done would be for nothing.
  EXPECT_CALL(store_, Fork(_, _)).Times(0);
  v1::ForkSessionRequest fork;
  fork.mutable_session()->set_session_id(kId);
  fork.set_count(128);
  v1::ForkSessionResponse forks;
  grpc::ClientContext context;
  grpc::Status status = v1::SessionService::NewStub(channel_)->ForkSession(&context, fork, &forks);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1);
  Transcript transcript(channel_, &context_);
  v1::GetSessionResponse response;
  status = transcript.Read(&response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  v1::TokenizeRequest text;
  text.set_text("abc");
  v1::TokenizeResponse ids;
  grpc::ClientContext small;
  status = v1::GenerationService::NewStub(channel_)->Tokenize(&small, text, &ids);
  EXPECT_TRUE(status.ok()) << "a small answer needs no room: " << status.error_message();
}

// A long transcript, say.
TEST_F(ManyReadersTest, CountWhatASnapshotKeeps) {
  ON_CALL(store_, Export(_, _)).WillByDefault([](auto&, auto&) {
    return NewZeros(kManyBytes, /*kept_bytes=*/int64_t{1} << 20);
  });
  ASSERT_TRUE(BeginExport());
  EXPECT_FALSE(BeginExport()) << "there is room for one more chunk, but not for what is kept";
}

TEST_F(ManyReadersTest, CountASnapshotBeforeItIsMade) {
  ASSERT_TRUE(BeginExport());
  bool made = false;
  ON_CALL(store_, Export(_, _))
      .WillByDefault(
          [&](auto&, const ExportRoom& room) -> absl::StatusOr<std::unique_ptr<SnapshotStream>> {
            if (auto status = room(kManyBytes, kManyBytes); !status.ok()) return status;
            made = true;
            return NewZeros(kManyBytes);
          });
  EXPECT_FALSE(BeginExport());
  EXPECT_FALSE(made);
}

TEST_F(ManyReadersTest, GiveBackWhatTheyTook) {
  ASSERT_TRUE(BeginExport());
  ASSERT_TRUE(BeginExport());
  readers_.back().context->TryCancel();
  (void)readers_.back().call->Finish();
  readers_.pop_back();
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  bool begun = BeginExport();
  while (!begun && std::chrono::steady_clock::now() < patience) begun = BeginExport();
  EXPECT_TRUE(begun);
}

class DrainTest : public ReadersTest {
 protected:
  DrainTest() : ReadersTest(std::chrono::hours(1)) {}
};

TEST_F(DrainTest, ASnapshotOnItsWayArrives) {
  const auto reader = Export();
  v1::ExportSessionResponse message;
  ASSERT_TRUE(reader->Read(&message));
  server_->SetDraining();
  std::jthread drain([&] {
    server_->FinishCalls(In(std::chrono::hours(1)), {});
    server_->Shutdown(std::chrono::steady_clock::now());
  });
  size_t bytes = message.chunk().size();
  while (reader->Read(&message)) bytes += message.chunk().size();
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(bytes, kManyBytes);
}

TEST_F(DrainTest, AnAnswerOnItsWayArrives) {
  Transcript transcript(channel_, &context_);
  ASSERT_EQ(WaitForEnd(), "OK");
  std::jthread drain([&] {
    server_->FinishCalls(In(std::chrono::hours(1)), {});
    server_->Shutdown(std::chrono::steady_clock::now());
  });
  // Longer than gRPC gives calls of which nothing is left to do.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  v1::GetSessionResponse response;
  const grpc::Status status = transcript.Read(&response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.transcript_size(), kManyIds);
}

TEST_F(DrainTest, EndsASnapshotOnItsWayWhenToldTo) {
  const auto reader = Export();
  v1::ExportSessionResponse message;
  ASSERT_TRUE(reader->Read(&message));
  std::stop_source stop;
  std::jthread drain([&] {
    server_->FinishCalls(In(std::chrono::hours(1)), stop.get_token());
    server_->Shutdown(std::chrono::steady_clock::now());
  });
  stop.request_stop();
  drain.join();
  while (reader->Read(&message)) continue;
  EXPECT_FALSE(reader->Finish().ok());
}

TEST_F(DrainTest, DoesNotWaitForReadersOfFinishedRequests) {
  const auto reader = GenerateFew();
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  ASSERT_TRUE(engine_.engine->Drain(In(std::chrono::hours(1))));
  server_->FinishCalls(In(std::chrono::hours(1)), {});  // returns
  server_->Shutdown(std::chrono::steady_clock::now());
  context_.TryCancel();
  (void)reader->Finish();
}

// Who calls again and again does not keep the server from stopping.
TEST_F(DrainTest, DoesNotWaitForCallsThatComeLater) {
  server_->FinishCalls(std::chrono::steady_clock::now(), {});
  const auto reader = Export();
  v1::ExportSessionResponse message;
  ASSERT_TRUE(reader->Read(&message));
  server_->FinishCalls(In(std::chrono::hours(1)), {});  // returns
  context_.TryCancel();
  (void)reader->Finish();
}

}  // namespace
}  // namespace tvq
