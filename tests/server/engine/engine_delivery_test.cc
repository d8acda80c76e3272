// When a step's tokens go out: as soon as they are sampled, while others still compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/server/engine/harness.h"

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
  const auto submit = [&](const char* name, int32_t max_tokens) {
    auto sink = NewSink();
    sink->on_delta = [&log, name](const Delta&) { log.emplace_back(name); };
    EXPECT_TRUE(h.engine->Submit(Ask(sink, "abc", {.max_tokens = max_tokens})).ok());
    return sink;
  };
  const auto decoding = submit("of the one that decodes", 2);
  gate.WaitEntered();  // the others come while it starts, and their prompts into one step
  const auto first = submit("of the first prompt", 1);
  const auto second = submit("of the second prompt", 1);
  gate.Open();
  for (const auto& sink : {decoding, first, second}) ASSERT_TRUE(sink->Wait().ok());
  EXPECT_THAT(log, ElementsAre("Prefill", "of the one that decodes",  //
                               "Decode", "of the one that decodes",   //
                               "Prefill", "of the first prompt",      //
                               "Prefill", "of the second prompt"));
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

// Rows of logits are taken anew for each part of a step: there are as many as sequences.
TEST(EngineDeliveryTest, AStepOfManyPromptsNeedsNoMoreRowsThanItHasSequences) {
  ModelGate gate;
  Harness h({}, {.max_num_seqs = 4, .max_num_batched_tokens = 64, .state_memory_bytes = 1'000'000},
            gate.Hook());
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 12; ++i) {
    sinks.push_back(NewSink());
    Request request = Ask(sinks.back(), "abcdefghijk", {.max_tokens = 3});
    // What keeps its logits takes a row, too, and samples nothing.
    if (i % 3 == 0) request.purpose = Purpose::kAppend;
    request.keep = i % 3 == 0;
    ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
  }
  gate.Open();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->Wait().ok());
}

}  // namespace
}  // namespace tvq
