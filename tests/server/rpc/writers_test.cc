// Streams that are open at once, written by one thread and by several.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
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

INSTANTIATE_TEST_SUITE_P(Threads, WritersTest, testing::Values(1, 2),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tvq
