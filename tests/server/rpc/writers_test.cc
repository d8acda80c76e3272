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
#include "server/rpc/server.h"
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
        Server::Start(engine_.engine.get(), nullptr, {}, {.port = 0, .writers = GetParam()});
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

// A writer has other work, or waits for a core; the test makes it wait for the token's arrival.
TEST(FirstTokenTest, DoesNotWaitForTheWriter) {
  const auto model = std::make_shared<SlowModel>();
  // The first request begins when the writer is at work with the second.
  absl::Notification submitted;
  model->on_call = [&](std::string_view) {
    if (!submitted.HasBeenNotified()) submitted.Notify();
    model->slow.begun.WaitForNotification();
    return absl::OkStatus();
  };
  auto engine = Engine::Create({{"fake", model}}, SmallOptions());
  ASSERT_TRUE(engine.ok()) << engine.status();
  auto server = Server::Start(engine->get(), nullptr, {}, {.port = 0, .writers = 1});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto stub = v1::GenerationService::NewStub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", (*server)->port()), grpc::InsecureChannelCredentials()));
  const auto generate = [&stub](std::string_view text, grpc::ClientContext* context) {
    v1::GenerateRequest request;
    request.set_text(std::string(text));
    request.mutable_sampling()->set_max_tokens(8);
    request.mutable_sampling()->set_ignore_eos(true);
    return stub->Generate(context, request);
  };

  grpc::ClientContext first_context, second_context;
  first_context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  const auto first = generate("first", &first_context);
  submitted.WaitForNotification();
  const auto second = generate(SlowTokenizer::kSlow, &second_context);
  v1::GenerateResponse message;
  EXPECT_TRUE(first->Read(&message)) << "the first token waits for the writer";
  EXPECT_EQ(message.deltas_size(), 1);
  EXPECT_TRUE(first_context.GetServerInitialMetadata().contains("x-request-id"));
  model->slow.go_on.Notify();
  int64_t tokens = message.deltas_size() > 0 ? message.deltas(0).token_ids_size() : 0;
  while (first->Read(&message)) {
    for (const v1::SampleDelta& delta : message.deltas()) tokens += delta.token_ids_size();
  }
  EXPECT_TRUE(first->Finish().ok());
  EXPECT_EQ(tokens, 8);
  while (second->Read(&message)) continue;
  EXPECT_TRUE(second->Finish().ok());
}

INSTANTIATE_TEST_SUITE_P(Threads, WritersTest, testing::Values(1, 2),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tvq
