// The room for answers that their clients do not take: what needs some, and what others then find.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/services/server.h"
#include "tests/server/engine/harness.h"
#include "tests/server/rpc/mock_session_store.h"
#include "tests/server/rpc/narrow_channel.h"
#include "tests/server/rpc/two_keys.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq {
namespace {

using testing::_;
using testing::NiceMock;

constexpr int64_t kChunk = int64_t{1} << 20;   // of a snapshot
constexpr int64_t kSmall = int64_t{16} << 10;  // needs no room
constexpr int64_t kSnapshot = 5 * kChunk / 2;

// Vectors of zeros, of more bytes than an answer without room may have.
class WideEncoder : public FakeModel, public Encoder {
 public:
  WideEncoder() : info_(FakeModel::info()) { info_.predicts = false; }
  const ModelInfo& info() const override { return info_; }
  Encoder* encoder() override { return this; }
  int64_t width() const override { return 2 * kSmall / sizeof(float); }
  int64_t Rows(int64_t tokens) const override { return tokens; }
  absl::Status Begin(State&, std::span<const int32_t>) override { return on_begin("Begin"); }
  absl::Status Advance(State&, int64_t) override { return absl::OkStatus(); }
  absl::Status Read(const State&, bool, std::span<float> out) override {
    std::ranges::fill(out, 0.0F);
    return absl::OkStatus();
  }

  std::function<absl::Status(std::string_view)> on_begin;

 private:
  ModelInfo info_;
};

// A call that the client leaves alone until the test ends.
template <typename Call>
struct LeftAlone {
  std::unique_ptr<grpc::ClientContext> context = std::make_unique<grpc::ClientContext>();
  std::unique_ptr<Call> call;

  LeftAlone() = default;
  LeftAlone(LeftAlone&&) = default;
  ~LeftAlone() {
    if (call == nullptr) return;
    context->TryCancel();
    (void)call->Finish();
  }
};

// Of two keys.
class AnswerRoomTest : public testing::Test {
 protected:
  using Exporting = LeftAlone<grpc::ClientReader<v1::ExportSessionResponse>>;
  using Reading = LeftAlone<grpc::ClientReader<v1::GenerateResponse>>;
  using Generating = LeftAlone<
      grpc::ClientReaderWriter<v1::GenerateWithStateRequest, v1::GenerateWithStateResponse>>;

  // Room in which one key has two chunks; another has no third.
  static constexpr int64_t kRoom = int64_t{2400} << 10;

  explicit AnswerRoomTest(int64_t room = kRoom) {
    auto engine = Engine::Create(
        {{"fake", model_}, {"encoder", encoder_}},
        {.max_num_seqs = 16, .max_num_batched_tokens = 32, .state_memory_bytes = 64 * kChunk});
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    // Larger than what gRPC takes of a client that reads only its beginning.
    ON_CALL(store_, Export(_, _)).WillByDefault([](auto&, auto&) { return NewZeros(64 * kChunk); });
    ON_CALL(store_, ToSnapshot(_, _)).WillByDefault([](auto&, auto) {
      return NewZeros(kSnapshot);
    });
    ON_CALL(store_, NewUpload()).WillByDefault([] { return std::make_unique<NoUpload>(); });
    auto server = Server::Start(engine_.get(), &store_, {},
                                {.port = 0,
                                 .max_vector_bytes = room,
                                 .max_answer_bytes = room,
                                 .stall_timeout = std::chrono::hours(1),
                                 .gate = keys_.gate()});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                   grpc::InsecureChannelCredentials());
    sessions_ = v1::SessionService::NewStub(channel_);
    generation_ = v1::GenerationService::NewStub(channel_);
  }

  // OK when the server has begun to send a snapshot, of which no more is read.
  grpc::Status BeginExport(const char* key) {
    Exporting open;
    UseKey(key, open.context.get());
    v1::ExportSessionRequest request;
    request.mutable_session()->set_session_id(kId);
    open.call = sessions_->ExportSession(open.context.get(), request);
    v1::ExportSessionResponse message;
    if (!open.call->Read(&message)) return std::exchange(open.call, nullptr)->Finish();
    exports_.push_back(std::move(open));
    return grpc::Status::OK;
  }

  // Exports of a key until there is no room for more: how many.
  int FillRoom(const char* key) {
    int count = 0;
    while (BeginExport(key).ok()) ++count;
    return count;
  }

  Generating StartWithState(int32_t max_tokens) {
    Generating open;
    UseKey(kAnasKey, open.context.get());
    open.call = generation_->GenerateWithState(open.context.get());
    v1::GenerateWithStateRequest request;
    request.mutable_generate()->set_text("abc");
    request.mutable_generate()->mutable_sampling()->set_max_tokens(max_tokens);
    request.mutable_generate()->mutable_sampling()->set_ignore_eos(true);
    EXPECT_TRUE(open.call->Write(request));
    open.call->WritesDone();
    return open;
  }

  static void WaitUntil(const std::function<bool()>& done) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), patience);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // As `ask` ends it, a grpc::Status(grpc::ClientContext*): for want of room, to be tried again.
  template <typename Ask>
  static void ExpectRefused(Ask ask) {
    grpc::ClientContext context;
    UseKey(kAnasKey, &context);
    const grpc::Status status = ask(&context);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1U);
  }
  // The same, once there is room.
  template <typename Ask>
  static void ExpectOk(Ask ask) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    grpc::Status status;
    do {
      grpc::ClientContext context;
      UseKey(kAnasKey, &context);
      status = ask(&context);
    } while (!status.ok() && std::chrono::steady_clock::now() < until);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  const TwoKeys keys_;
  const std::shared_ptr<FakeModel> model_ =
      std::make_shared<FakeModel>(FakeOptions{.state_bytes = kChunk});
  const std::shared_ptr<WideEncoder> encoder_ = std::make_shared<WideEncoder>();
  std::unique_ptr<Engine> engine_;
  NiceMock<MockSessionStore> store_;
  FakeLease::Log log_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
  std::deque<Exporting> exports_;
};

TEST_F(AnswerRoomTest, AStateTakesNoneBeforeItIsSent) {
  std::vector<Generating> calls;
  for (int i = 0; i < 5; ++i) {
    calls.push_back(StartWithState(kForever));
    v1::GenerateWithStateResponse message;
    ASSERT_TRUE(calls.back().call->Read(&message)) << i;
  }
  EXPECT_EQ(FillRoom(kAnasKey), 2);
}

TEST_F(AnswerRoomTest, AStateGoesOutInSmallPiecesIfThereIsNone) {
  for (const bool full : {false, true}) {
    if (full) {
      ASSERT_EQ(FillRoom(kAnasKey), 2);
    }
    const auto open = StartWithState(1);
    v1::GenerateWithStateResponse message;
    int64_t bytes = 0, largest = 0;
    while (open.call->Read(&message)) {
      const auto size = static_cast<int64_t>(message.chunk().size());
      bytes += size;
      largest = std::max(largest, size);
    }
    EXPECT_EQ(bytes, kSnapshot);
    EXPECT_EQ(largest, full ? kSmall : kChunk);
  }
}

TEST_F(AnswerRoomTest, VectorsHaveTheirOwn) {
  ModelGate hold;
  encoder_->on_begin = hold.Hook();
  v1::EncodeRequest request;
  request.set_model("encoder");
  request.set_text(std::string(70, 'a'));  // 2240 KiB of vectors
  const auto encode = [&](grpc::ClientContext* context) {
    v1::EncodeResponse response;
    return generation_->Encode(context, request, &response);
  };
  std::jthread first([&] { ExpectOk(encode); });
  hold.WaitEntered();
  ExpectRefused(encode);
  EXPECT_EQ(FillRoom(kAnasKey), 2);
  hold.Open();
  first.join();
  ExpectOk(encode);
}

TEST_F(AnswerRoomTest, TextNeedsSome) {
  v1::DetokenizeRequest request;
  const auto detokenize = [&](grpc::ClientContext* context) {
    v1::DetokenizeResponse response;
    return generation_->Detokenize(context, request, &response);
  };
  request.mutable_token_ids()->Resize(300 << 10, ByteId('a'));
  ASSERT_EQ(FillRoom(kAnasKey), 2);
  ExpectRefused(detokenize);
  exports_.clear();
  ExpectOk(detokenize);
}

TEST_F(AnswerRoomTest, AnAnswerToARetryNeedsSome) {
  std::string kept;
  EXPECT_CALL(store_, Acquire(_)).WillRepeatedly([&](const SessionCall&) {
    auto lease =
        std::make_unique<FakeLease>(SessionRecord{.id = kId, .model = "fake", .version = 3}, &log_);
    if (!kept.empty()) lease->kept = kept;
    return absl::StatusOr<std::unique_ptr<Lease>>(std::move(lease));
  });
  v1::GenerateRequest request;
  request.mutable_session()->set_session_id(kId);
  request.mutable_session()->set_idempotency_key("key");
  request.set_text("abc");
  request.mutable_sampling()->set_max_tokens(1500);
  request.mutable_sampling()->set_ignore_eos(true);
  request.mutable_sampling()->set_logprobs(20);
  const auto generate = [&](grpc::ClientContext* context) {
    const auto reader = generation_->Generate(context, request);
    v1::GenerateResponse message;
    while (reader->Read(&message)) continue;
    return reader->Finish();
  };
  ExpectOk(generate);
  kept = log_.reply;
  ASSERT_GT(kept.size(), 300U << 10);
  int filled = 0;
  WaitUntil([&] { return (filled += FillRoom(kAnasKey)) == 2; });  // the call gives its own back
  ExpectRefused(generate);
  exports_.clear();
  ExpectOk(generate);
}

// Its request has no place any more.
TEST_F(AnswerRoomTest, OutputThatIsNotReadNeedsSome) {
  constexpr int kCalls = 60;
  constexpr int32_t kTokens = 400;
  v1::GenerateRequest request;
  request.set_text("abc");
  request.mutable_sampling()->set_max_tokens(kTokens);
  request.mutable_sampling()->set_ignore_eos(true);
  const auto stub = v1::GenerationService::NewStub(NarrowChannel(server_->port()));
  std::vector<Reading> calls(kCalls);
  for (Reading& open : calls) {
    UseKey(kAnasKey, open.context.get());
    open.call = stub->Generate(open.context.get(), request);
  }
  WaitUntil([&] { return engine_->stats().requests_finished == kCalls; });
  Generate(*engine_, "abc");  // the calls have heard of their requests' ends
  int whole = 0;
  for (Reading& open : calls) {
    int32_t tokens = 0;
    for (v1::GenerateResponse message; open.call->Read(&message);) {
      for (const auto& delta : message.deltas()) tokens += delta.token_ids_size();
    }
    const grpc::Status status = std::exchange(open.call, nullptr)->Finish();
    if (status.ok()) {
      ++whole;
      EXPECT_EQ(tokens, kTokens);
      continue;
    }
    EXPECT_LT(tokens, kTokens);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(), testing::HasSubstr("its reader is behind by"));
    EXPECT_EQ(open.context->GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1U);
  }
  // 160 to 260 bytes a token.
  EXPECT_GT(whole, 15);
  EXPECT_LT(whole, 40);
}

TEST_F(AnswerRoomTest, ACallThatGetsNoneHasHadItsEffect) {
  constexpr size_t kText = 100 << 10;
  EXPECT_CALL(store_, Acquire(_)).WillOnce([&](const SessionCall&) {
    return absl::StatusOr<std::unique_ptr<Lease>>(std::make_unique<FakeLease>(
        SessionRecord{.id = kId, .model = "fake", .version = 3}, &log_));
  });
  ASSERT_EQ(FillRoom(kAnasKey), 2);
  v1::GenerateRequest request;
  request.mutable_session()->set_session_id(kId);
  request.mutable_session()->set_idempotency_key("key");
  request.set_text(std::string(kText, 'a'));
  request.mutable_sampling()->set_max_tokens(0);
  request.mutable_sampling()->set_echo(true);
  const auto stub = v1::GenerationService::NewStub(NarrowChannel(server_->port()));
  Reading open;
  UseKey(kAnasKey, open.context.get());
  open.call = stub->Generate(open.context.get(), request);
  // Though nothing is read: what is written already does not stay for long.
  std::string code;
  WaitUntil([&] {
    for (const auto& finished : server_->call_counts().finished) {
      if (std::string_view(finished.method) == "GenerationService/Generate") code = finished.code;
    }
    return !code.empty();
  });
  EXPECT_EQ(code, "RESOURCE_EXHAUSTED");
  EXPECT_EQ(log_.commits, 1);
  EXPECT_GT(log_.reply.size(), kText);
}

class SharedAnswerRoomTest : public AnswerRoomTest {
 protected:
  SharedAnswerRoomTest() : AnswerRoomTest(32 * kChunk) {}
};

TEST_F(SharedAnswerRoomTest, OneKeyLeavesSomeToAnother) {
  EXPECT_EQ(FillRoom(kAnasKey), 28);
  const grpc::Status status = BeginExport(kBensKey);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace tvq
