// When a step's tokens go out: as soon as they are sampled, while others still compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/server/engine/harness.h"
#include "tests/server/engine/test_session.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;

TEST(EngineDeliveryTest, NobodyWaitsForThePromptsOfOthers) {
  std::vector<std::string> log;  // the loop's, until all is done
  ModelGate gate;
  Harness h({}, SmallOptions(), [&, hold = gate.Hook()](std::string_view call) {
    if (call == "Prefill" || call == "Decode") log.emplace_back(call);
    return hold(call);
  });
  const auto submit = [&](const std::string& name, Request request) {
    auto sink = NewSink();
    sink->on_delta = [&log, name](const Delta&) { log.push_back(name); };
    sink->on_done = [&log, name] { log.push_back("end of " + name); };
    request.sink = sink;
    EXPECT_TRUE(h.engine->Submit(std::move(request)).ok());
    return sink;
  };
  const auto decoding = submit("decoding", Ask(nullptr, "abc", {.max_tokens = 2}));
  gate.WaitEntered();  // the others come while it starts, and their prompts into one step
  const auto first = submit("first", Ask(nullptr, "abc", {.max_tokens = 1}));
  Request append = Ask(nullptr, "abc");
  append.purpose = Purpose::kAppend;
  append.keep = true;
  const auto second = submit("second", std::move(append));
  const auto third = submit("third", Ask(nullptr, "abc", {.max_tokens = 1}));
  gate.Open();
  for (const auto& sink : {decoding, first, second, third}) ASSERT_TRUE(sink->Wait().ok());
  EXPECT_THAT(log, ElementsAre("Prefill", "decoding",                    //
                               "Decode", "decoding", "end of decoding",  //
                               "Prefill", "first", "end of first",       //
                               "Prefill", "end of second",               //
                               "Prefill", "third", "end of third"));
  EXPECT_EQ(h.engine->stats().steps, 2);
}

TEST(EngineDeliveryTest, IsToldOfWhenAllHaveTheirTokens) {
  std::vector<std::string> log;  // the loop's, until all is done
  ModelGate gate;
  Harness h({}, SmallOptions(), [&, hold = gate.Hook()](std::string_view call) {
    if (call == "Decode") log.emplace_back(call);
    return hold(call);
  });
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 3; ++i) {
    sinks.push_back(NewSink());
    sinks.back()->on_delta = [&log](const Delta&) { log.emplace_back("delta"); };
    sinks.back()->on_delivered = [&log] { log.emplace_back("delivered"); };
    const SamplingParams sampling{.max_tokens = 3, .echo = i == 0};
    ASSERT_TRUE(h.engine->Submit(Ask(sinks.back(), "abc", sampling)).ok());
    if (i == 0) gate.WaitEntered();
  }
  gate.Open();
  for (const auto& sink : sinks) ASSERT_TRUE(sink->Wait().ok());
  EXPECT_THAT(log, ElementsAre("delta", "delivered",                        // echo
                               "delta", "delivered",                        //
                               "Decode", "delta", "delivered",              //
                               "delta", "delivered", "delta", "delivered",  // prompts
                               "Decode", "delta", "delta", "delta",         //
                               "delivered", "delivered", "delivered",       //
                               "Decode", "delta", "delta", "delivered", "delivered"));
}

// What a request's reader gets, and what it leaves.
struct Outcome {
  RecordingSink::Sample sample;
  std::vector<float> logprobs;         // of its tokens
  std::vector<float> prompt_logprobs;  // of the prompt's
  std::vector<std::byte> kept;
};

Outcome OutcomeOf(RecordingSink& sink) {
  EXPECT_TRUE(sink.Wait().ok()) << sink.Wait();
  Outcome outcome{.sample = sink.sample()};
  for (const TokenEvent& event : outcome.sample.events) {
    outcome.logprobs.push_back(event.token.logprob);
  }
  for (const TokenEvent& event : sink.prompt()) {
    outcome.prompt_logprobs.push_back(event.token.logprob);
  }
  if (std::optional<Continuation> kept = sink.TakeKept()) {
    TestSession session;
    session.Commit(*std::move(kept));
    outcome.kept = session.Bits();
  }
  return outcome;
}

void ExpectSame(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.sample, b.sample);
  EXPECT_EQ(a.logprobs, b.logprobs);
  EXPECT_EQ(a.prompt_logprobs, b.prompt_logprobs);
  EXPECT_EQ(a.kept, b.kept);
}

// One of four kinds, of which each leaves or says something else of its prompt.
Request OfKind(int kind, std::shared_ptr<RecordingSink> sink, std::string_view prompt) {
  Request request =
      Ask(std::move(sink), prompt, {.seed = 5, .ignore_eos = true, .max_tokens = 3, .logprobs = 0});
  switch (kind % 4) {
    case 0:
      request.keep = true;
      break;
    case 1:
      request.purpose = Purpose::kAppend;
      request.keep = true;
      break;
    case 2:
      request.purpose = Purpose::kScore;
      break;
    default:
      request.sampling.prompt_logprobs = 0;
  }
  return request;
}

Outcome Alone(Engine& engine, int kind, std::string_view prompt) {
  const auto sink = NewSink();
  EXPECT_TRUE(engine.Submit(OfKind(kind, sink, prompt)).ok());
  return OutcomeOf(*sink);
}

// Rows of logits are taken anew for each part of a step: there are as many as sequences.
TEST(EngineDeliveryTest, InAStepOfManyPromptsEachGetsWhatItGetsAlone) {
  Harness h({}, {.max_num_seqs = 4, .max_num_batched_tokens = 64, .state_memory_bytes = 1'000'000});
  std::vector<std::string> prompts;  // of different lengths and contents, of one chunk to three
  std::vector<Outcome> alone;
  for (int i = 0; i < 12; ++i) {
    prompts.push_back(std::string("abcdefghijklmnopqrst").substr(static_cast<size_t>(i) / 2));
    prompts.back().resize(static_cast<size_t>(i) + 6, 'x');
    alone.push_back(Alone(*h.engine, i, prompts.back()));
  }
  const int64_t steps = h.engine->stats().steps;
  ModelGate gate;  // until all have come
  h.model->on_call = gate.Hook();
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 12; ++i) {
    sinks.push_back(NewSink());
    ASSERT_TRUE(h.engine->Submit(OfKind(i, sinks.back(), prompts[static_cast<size_t>(i)])).ok());
    if (i == 0) gate.WaitEntered();
  }
  gate.Open();
  for (size_t i = 0; i < sinks.size(); ++i) {
    SCOPED_TRACE(prompts[i]);
    ExpectSame(OutcomeOf(*sinks[i]), alone[i]);
  }
  // Alone they took 3 + 1 + 1 + 3, four at a time.
  EXPECT_LT(h.engine->stats().steps - steps, steps);
}

TEST(EngineDeliveryTest, APromptThatFailsLeavesTheOthersOfItsStepAsTheyAre) {
  // The shorter is fed first.
  const std::string before = "prompt of three chunks", failing = "poisoned !in its second",
                    after = "one more prompt of three";
  for (int kind = 0; kind < 4; ++kind) {
    for (const bool fails_in_call : {false, true}) {
      SCOPED_TRACE(testing::Message() << "kind " << kind << " fails in the call " << fails_in_call);
      Harness h({.poison = ByteId('!')}, {.max_num_batched_tokens = 96});
      const Outcome before_alone = Alone(*h.engine, 0, before);
      const Outcome after_alone = Alone(*h.engine, 0, after);
      const Outcome first_alone = Alone(*h.engine, 0, "decodes");

      const int64_t steps = h.engine->stats().steps;
      int64_t prefills = 0;
      ModelGate gate;
      h.model->on_call = [&, hold = gate.Hook()](std::string_view call) {
        // After that of the one that decodes and three of the prompt before: its second.
        if (call == "Prefill" && ++prefills == 6 && fails_in_call) {
          return absl::ResourceExhaustedError("out of device memory");
        }
        return hold(call);
      };
      std::vector<std::shared_ptr<RecordingSink>> sinks;
      for (const auto& [of, prompt] :
           {std::pair<int, std::string>(0, "decodes"), {0, before}, {kind, failing}, {0, after}}) {
        sinks.push_back(NewSink());
        ASSERT_TRUE(h.engine->Submit(OfKind(of, sinks.back(), prompt)).ok());
        if (sinks.size() == 1) gate.WaitEntered();
      }
      gate.Open();
      const absl::Status status = sinks[2]->Wait();
      EXPECT_TRUE(fails_in_call ? absl::IsResourceExhausted(status) : absl::IsInternal(status))
          << status;
      EXPECT_FALSE(sinks[2]->TakeKept());
      EXPECT_EQ(sinks[2]->deltas(), 0);
      ExpectSame(OutcomeOf(*sinks[0]), first_alone);
      ExpectSame(OutcomeOf(*sinks[1]), before_alone);
      ExpectSame(OutcomeOf(*sinks[3]), after_alone);
      // A step for the prompt of the one that decodes, one with the three, and two more tokens.
      EXPECT_EQ(h.engine->stats().steps - steps, 4);
      EXPECT_EQ(h.model->live_states, 0);
    }
  }
}

}  // namespace
}  // namespace tvq
