// Streams that are open at once, written by one thread and by several.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/rpc/services/server.h"
#include "tests/server/engine/harness.h"
#include "tvq/v1/generation.grpc.pb.h"

namespace tvq {
namespace {

constexpr size_t kStreams = 8;
// More than wait for a writer before a request pauses.
constexpr int32_t kTokens = 2000;

std::string Prompt(size_t stream) { return absl::StrCat("stream ", stream); }

class WritersTest : public testing::TestWithParam<int> {
 protected:
  WritersTest() {
    auto server =
        Server::Start(engine_.engine.get(), nullptr, {}, {.port = 0, .call_threads = GetParam()});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::GenerationService::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials()));
  }

  std::vector<v1::GenerateResponse> Messages(size_t stream) {
    v1::GenerateRequest request;
    request.set_text(Prompt(stream));
    request.mutable_sampling()->set_temperature(0);
    request.mutable_sampling()->set_max_tokens(kTokens);
    request.mutable_sampling()->set_ignore_eos(true);
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, request);
    std::vector<v1::GenerateResponse> messages;
    for (v1::GenerateResponse message; reader->Read(&message);) messages.push_back(message);
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return messages;
  }

  Harness engine_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

TEST_P(WritersTest, SendEveryStreamWholeAndInOrder) {
  std::vector<RecordingSink::Sample> samples;
  for (size_t stream = 0; stream < kStreams; ++stream) {
    const SamplingParams greedy{.temperature = 0, .ignore_eos = true, .max_tokens = kTokens};
    samples.push_back(Generate(*engine_.engine, Prompt(stream), greedy)->sample());
  }
  std::vector<std::vector<v1::GenerateResponse>> streams(kStreams);
  {
    std::vector<std::jthread> readers;
    readers.reserve(kStreams);
    for (size_t stream = 0; stream < kStreams; ++stream) {
      readers.emplace_back([&, stream] { streams[stream] = Messages(stream); });
    }
  }
  for (size_t stream = 0; stream < kStreams; ++stream) {
    SCOPED_TRACE(Prompt(stream));
    std::string text;
    std::vector<int32_t> tokens;
    bool ended = false;
    for (const v1::GenerateResponse& message : streams[stream]) {
      EXPECT_EQ(message.has_usage(), &message == &streams[stream].back());
      for (const v1::SampleDelta& delta : message.deltas()) {
        EXPECT_FALSE(ended) << "a delta after the end";
        text += delta.text();
        tokens.insert(tokens.end(), delta.token_ids().begin(), delta.token_ids().end());
        ended = delta.finish_reason() == v1::FINISH_REASON_LENGTH;
      }
    }
    EXPECT_TRUE(ended);
    EXPECT_EQ(text, samples[stream].text);
    EXPECT_EQ(tokens, samples[stream].tokens);
  }
}

// Takes its time for one text.
class SlowTokenizer : public FakeTokenizer {
 public:
  static constexpr std::string_view kSlow = "slow";

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const override {
    if (text == kSlow) {
      begun.Notify();
      go_on.WaitForNotification();
    }
    return FakeTokenizer::Encode(text);
  }

  mutable absl::Notification begun;
  absl::Notification go_on;
};

class SlowModel : public FakeModel {
 public:
  const Tokenizer& tokenizer() const override { return slow; }

  SlowTokenizer slow;
};

// A writer has other work, or waits for a core; the tests keep it waiting.
class FirstTokenTest : public testing::Test {
 protected:
  static constexpr int32_t kLength = 8;

  // The first request begins when the writer is at work with the second.
  FirstTokenTest() {
    model_->on_call = [this](std::string_view) {
      if (!submitted_.HasBeenNotified()) submitted_.Notify();
      model_->slow.begun.WaitForNotification();
      return absl::OkStatus();
    };
    auto engine = Engine::Create({{"fake", model_}}, SmallOptions());
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    auto server = Server::Start(engine_.get(), nullptr, {}, {.port = 0, .call_threads = 1});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::GenerationService::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials()));
    first_context_.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  }

  void Begin(v1::SamplingParams sampling) {
    first_ = Call("first", std::move(sampling), &first_context_);
    submitted_.WaitForNotification();
    second_ = Call(SlowTokenizer::kSlow, {}, &second_context_);
  }

  // The first request's messages but those that were read, and the end of both.
  std::vector<v1::GenerateResponse> Rest() {
    if (!model_->slow.go_on.HasBeenNotified()) model_->slow.go_on.Notify();
    std::vector<v1::GenerateResponse> messages;
    v1::GenerateResponse message;
    while (first_->Read(&message)) messages.push_back(message);
    EXPECT_TRUE(first_->Finish().ok());
    while (second_->Read(&message)) continue;
    EXPECT_TRUE(second_->Finish().ok());
    return messages;
  }

  static int64_t Tokens(const v1::GenerateResponse& message) {
    int64_t tokens = 0;
    for (const v1::SampleDelta& delta : message.deltas()) tokens += delta.token_ids_size();
    return tokens;
  }

  // What waits for the writer, with all tokens, goes out when that comes.
  void ExpectAllInOneMessage(const v1::SamplingParams& sampling) {
    Begin(sampling);
    const auto patience = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (engine_->stats().requests_finished == 0 && std::chrono::steady_clock::now() < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::vector<v1::GenerateResponse> messages = Rest();
    ASSERT_FALSE(messages.empty());
    EXPECT_EQ(Tokens(messages.front()), kLength) << "the loop wrote what came before the token";
    if (sampling.echo()) {
      EXPECT_TRUE(messages.front().deltas(0).text().starts_with("first"));
    }
    EXPECT_EQ(messages.front().prompt_logprobs_size(), sampling.has_prompt_logprobs() ? 5 : 0);
  }

  const std::shared_ptr<SlowModel> model_ = std::make_shared<SlowModel>();
  absl::Notification submitted_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
  grpc::ClientContext first_context_, second_context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> first_, second_;

 private:
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> Call(std::string_view text,
                                                                 v1::SamplingParams sampling,
                                                                 grpc::ClientContext* context) {
    sampling.set_max_tokens(kLength);
    sampling.set_ignore_eos(true);
    v1::GenerateRequest request;
    request.set_text(std::string(text));
    *request.mutable_sampling() = std::move(sampling);
    return stub_->Generate(context, request);
  }
};

TEST_F(FirstTokenTest, DoesNotWaitForTheWriter) {
  Begin({});
  v1::GenerateResponse message;
  EXPECT_TRUE(first_->Read(&message)) << "the first token waits for the writer";
  EXPECT_EQ(message.deltas_size(), 1);
  EXPECT_TRUE(first_context_.GetServerInitialMetadata().contains("x-request-id"));
  int64_t tokens = Tokens(message);
  for (const v1::GenerateResponse& later : Rest()) tokens += Tokens(later);
  EXPECT_EQ(tokens, kLength);
}

TEST_F(FirstTokenTest, WaitsBehindThePromptsLogProbabilities) {
  v1::SamplingParams sampling;
  sampling.set_prompt_logprobs(0);
  ExpectAllInOneMessage(sampling);
}

TEST_F(FirstTokenTest, WaitsBehindAnEcho) {
  v1::SamplingParams sampling;
  sampling.set_echo(true);
  ExpectAllInOneMessage(sampling);
}

INSTANTIATE_TEST_SUITE_P(Threads, WritersTest, testing::Values(1, 2),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tvq
