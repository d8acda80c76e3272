// Requests for the vectors of a text: computed in pieces beside other work, bounded and ended like
// all others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/refusal.h"
#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Optional;

constexpr int64_t kChunk = 8;  // rows in a step, where that is the budget

// Reads a text twice, as a model of two layers does; the vector of a token is its id and how many
// tokens the text has.
class FakeEncoder : public FakeModel, public Encoder {
 public:
  explicit FakeEncoder(FakeOptions options) : FakeModel(options), info_(FakeModel::info()) {
    info_.predicts = false;
  }

  const ModelInfo& info() const override { return info_; }
  Encoder* encoder() override { return this; }
  int64_t width() const override { return 2; }
  int64_t Rows(int64_t tokens) const override { return 2 * tokens; }

  absl::Status Begin(State& state, std::span<const int32_t> tokens) override {
    if (auto status = on_call("Begin"); !status.ok()) return status;
    texts_[&state] = {.tokens = {tokens.begin(), tokens.end()}};
    return absl::OkStatus();
  }
  absl::Status Advance(State& state, int64_t rows) override {
    if (auto status = on_call("Advance"); !status.ok()) return status;
    texts_.at(&state).rows += rows;
    advanced.push_back(rows);
    return absl::OkStatus();
  }
  absl::Status Read(const State& state, bool mean, std::span<float> out) override {
    const Text& text = texts_.at(&state);
    const auto count = static_cast<float>(text.tokens.size());
    EXPECT_EQ(text.rows, Rows(static_cast<int64_t>(text.tokens.size())));
    float sum = 0;
    for (size_t i = 0; i < text.tokens.size(); ++i) {
      const auto id = static_cast<float>(text.tokens[i]);
      sum += id;
      if (mean) continue;
      out[2 * i] = id;
      out[2 * i + 1] = count;
    }
    if (mean) {
      out[0] = sum / count;
      out[1] = count;
    }
    if (poisoned) out[0] = std::numeric_limits<float>::quiet_NaN();
    return absl::OkStatus();
  }

  bool poisoned = false;
  std::vector<int64_t> advanced;  // rows of each call

 private:
  struct Text {
    std::vector<int32_t> tokens;
    int64_t rows = 0;
  };

  ModelInfo info_;
  std::map<const State*, Text> texts_;
};

// An engine of the encoder "encoder" beside the model "fake", whose calls go through one hook.
struct EncodeHarness {
  using Hook = std::function<absl::Status(std::string_view)>;

  explicit EncodeHarness(
      EngineOptions options = {.max_num_batched_tokens = kChunk, .state_memory_bytes = 100'000},
      Hook hook = [](std::string_view) { return absl::OkStatus(); }, FakeOptions fake = {})
      : encoder(std::make_shared<FakeEncoder>(fake)), model(std::make_shared<FakeModel>()) {
    encoder->on_call = hook;
    model->on_call = std::move(hook);
    auto created = Engine::Create({{"encoder", encoder}, {"fake", model}}, options);
    EXPECT_TRUE(created.ok()) << created.status();
    engine = *std::move(created);
  }

  std::shared_ptr<FakeEncoder> encoder;
  std::shared_ptr<FakeModel> model;
  std::unique_ptr<Engine> engine;
};

Request Encode(std::shared_ptr<RecordingSink> sink, std::string_view text, bool mean = false) {
  Request request = Ask(std::move(sink), text);
  request.model = "encoder";
  request.purpose = Purpose::kEncode;
  request.mean = mean;
  return request;
}

// Its vectors, when all is well.
std::vector<float> VectorsOf(Engine& engine, std::string_view text, bool mean = false) {
  auto sink = NewSink();
  const auto handle = engine.Submit(Encode(sink, text, mean));
  EXPECT_TRUE(handle.ok()) << handle.status();
  if (!handle.ok()) return {};
  const absl::Status status = sink->Wait();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(sink->usage().prompt_tokens, static_cast<int64_t>(text.size()));
  EXPECT_EQ(sink->usage().completion_tokens, 0);
  EXPECT_EQ(sink->deltas(), 0);
  return sink->vectors().value_or(std::vector<float>());
}

TEST(EngineEncodeTest, AVectorForEveryTokenOrTheirMean) {
  EncodeHarness h;
  const auto id = [](char c) { return static_cast<float>(ByteId(c)); };
  EXPECT_THAT(VectorsOf(*h.engine, "abd"), ElementsAre(id('a'), 3, id('b'), 3, id('d'), 3));
  EXPECT_THAT(VectorsOf(*h.engine, "ac", /*mean=*/true), ElementsAre(id('b'), 2));
  EXPECT_EQ(h.encoder->live_states, 0);
  EXPECT_EQ(h.engine->budget().used(), 0);
}

TEST(EngineEncodeTest, ALongTextIsComputedInPiecesBetweenWhichOthersGoOn) {
  ModelGate gate;
  const auto hold = gate.Hook();
  std::mutex mutex;
  std::vector<std::string> calls;
  EncodeHarness h({.max_num_batched_tokens = kChunk, .state_memory_bytes = 100'000},
                  [&](std::string_view call) {
                    {
                      const std::lock_guard lock(mutex);
                      calls.emplace_back(call);
                    }
                    // The device's time is shared: an encoder's step takes longer than another's.
                    if (call == "Advance") std::this_thread::sleep_for(milliseconds(2));
                    return hold(call);
                  });
  auto encoded = NewSink(), generated = NewSink();
  ASSERT_TRUE(h.engine->Submit(Encode(encoded, std::string(500, 'x'), /*mean=*/true)).ok());
  gate.WaitEntered();
  ASSERT_TRUE(h.engine->Submit(Ask(generated, "y", {.ignore_eos = true, .max_tokens = 5})).ok());
  gate.Open();
  EXPECT_TRUE(generated->Wait().ok());
  EXPECT_TRUE(encoded->Wait().ok());
  EXPECT_THAT(encoded->vectors(), Optional(ElementsAre(ByteId('x'), 500)));
  EXPECT_EQ(h.encoder->advanced.size(), 1000U / kChunk);
  EXPECT_THAT(h.encoder->advanced, Each(Le(kChunk)));
  const std::lock_guard lock(mutex);
  const auto last_decode = std::find(calls.rbegin(), calls.rend(), "Decode");
  EXPECT_GT(std::count(calls.rbegin(), last_decode, "Advance"), 50)
      << "the model that predicts was done long before the encoder";
}

TEST(EngineEncodeTest, WaitsInABoundedQueue) {
  ModelGate gate;
  EncodeHarness h({.max_num_admitted_seqs = 1,
                   .max_num_queued_reqs = 2,
                   .max_num_queued_tokens = 10,
                   .state_memory_bytes = 100'000},
                  gate.Hook());
  std::vector<std::shared_ptr<RecordingSink>> sinks = {NewSink(), NewSink(), NewSink()};
  ASSERT_TRUE(h.engine->Submit(Encode(sinks[0], "runs")).ok());
  gate.WaitEntered();
  ASSERT_TRUE(h.engine->Submit(Encode(sinks[1], "12345")).ok());
  const absl::Status tokens = h.engine->Submit(Encode(NewSink(), "123456")).status();
  EXPECT_TRUE(absl::IsResourceExhausted(tokens));
  EXPECT_THAT(std::string(tokens.message()), HasSubstr("would exceed the limit of 10"));
  ASSERT_TRUE(h.engine->Submit(Encode(sinks[2], "1")).ok());
  const absl::Status requests = h.engine->Submit(Encode(NewSink(), "1")).status();
  EXPECT_TRUE(absl::IsResourceExhausted(requests));
  EXPECT_THAT(std::string(requests.message()), HasSubstr("2 requests wait, the limit is 2"));
  gate.Open();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->Wait().ok());
}

TEST(EngineEncodeTest, CancelAndDeadlineEndItInTheQueueAndInTheMidst) {
  for (const bool cancel : {true, false}) {
    ModelGate gate;
    EncodeHarness h({.max_num_admitted_seqs = 1,
                     .max_num_batched_tokens = kChunk,
                     .state_memory_bytes = 100'000},
                    gate.Hook());
    auto running = NewSink(), waiting = NewSink();
    Request first = Encode(running, std::string(10'000, 'x'));
    Request second = Encode(waiting, "y");
    if (!cancel) first.deadline = second.deadline = DeadlineIn(milliseconds(200));
    const auto running_handle = h.engine->Submit(first);
    gate.WaitEntered();
    const auto waiting_handle = h.engine->Submit(second);
    ASSERT_TRUE(waiting_handle.ok()) << waiting_handle.status();
    if (cancel) {
      h.engine->Cancel(*waiting_handle);
      h.engine->Cancel(*running_handle);
    } else {
      std::this_thread::sleep_until(first.deadline);
    }
    gate.Open();
    for (const auto& sink : {running, waiting}) {
      const absl::Status status = sink->Wait();
      EXPECT_TRUE(cancel ? absl::IsCancelled(status) : absl::IsDeadlineExceeded(status)) << status;
      EXPECT_FALSE(sink->vectors());
    }
    EXPECT_FALSE(waiting->started());
    EXPECT_LE(h.encoder->advanced.size(), 1U) << "within a step";
    EXPECT_EQ(VectorsOf(*h.engine, "z").size(), 2U);
    EXPECT_EQ(h.encoder->live_states, 0);
    EXPECT_EQ(h.engine->budget().used(), 0);
  }
}

TEST(EngineEncodeTest, WhatCannotBeEncodedIsRefused) {
  EncodeHarness h({.max_num_queued_tokens = 20, .state_memory_bytes = 100'000},
                  [](std::string_view) { return absl::OkStatus(); }, {.max_position = 10});
  const auto refusal = [&](Request request) {
    return h.engine->Submit(std::move(request)).status();
  };
  EXPECT_EQ(refusal(Encode(NewSink(), "")),
            Refused(Reason::kValueMissing, "prompt", "is empty, must have at least one token"));
  EXPECT_EQ(refusal(Encode(NewSink(), "12345678901")),
            Refused(Reason::kContextTooLong, "prompt",
                    "has 11 tokens, must be at most 10, the model's context length"));
  Request outside = Encode(NewSink(), "ab");
  outside.prompt[1] = kVocab;
  outside.prompt_field = "token_ids";
  const absl::Status id = refusal(outside);
  EXPECT_TRUE(absl::IsInvalidArgument(id));
  EXPECT_THAT(std::string(id.message()), HasSubstr("token_ids[1]: token id is 259"));

  Request predicts = Encode(NewSink(), "ab");
  predicts.model = "fake";
  EXPECT_EQ(refusal(predicts), Refused(Reason::kModelUnfit, "model",
                                       "a fake encodes nothing; it generates and scores"));
  Request generates = Ask(NewSink(), "ab");
  generates.model = "encoder";
  EXPECT_EQ(refusal(generates),
            Refused(Reason::kModelUnfit, "model", "a fake encodes; it predicts no tokens"));
  EXPECT_EQ(VectorsOf(*h.engine, "1234567890").size(), 20U);
}

TEST(EngineEncodeTest, AFailureIsThatRequestsAlone) {
  for (const std::string_view failing : {"Begin", "Advance"}) {
    bool fail = true;
    EncodeHarness h({.max_num_batched_tokens = kChunk, .state_memory_bytes = 100'000},
                    [&](std::string_view call) {
                      return call == failing && std::exchange(fail, false)
                                 ? absl::ResourceExhaustedError("no memory on the device")
                                 : absl::OkStatus();
                    });
    auto sink = NewSink();
    ASSERT_TRUE(h.engine->Submit(Encode(sink, "abc")).ok());
    EXPECT_EQ(sink->Wait(), absl::ResourceExhaustedError("no memory on the device")) << failing;
    EXPECT_FALSE(sink->vectors());
    EXPECT_EQ(VectorsOf(*h.engine, "abc").size(), 6U);
  }
}

TEST(EngineEncodeTest, VectorsThatAreNotFiniteAreNotSent) {
  EncodeHarness h;
  h.encoder->poisoned = true;
  auto sink = NewSink();
  ASSERT_TRUE(h.engine->Submit(Encode(sink, "abc")).ok());
  EXPECT_EQ(sink->Wait(), Refused(Reason::kNotFinite, "the vectors are not finite"));
  EXPECT_FALSE(sink->vectors());
}

}  // namespace
}  // namespace tvq
