// Whatever runs beside a request, it gets the tokens it gets alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

using Samples = std::map<int32_t, RecordingSink::Sample>;

struct Scripted {
  std::string prompt;
  SamplingParams sampling;
};

// Sixteen requests of all kinds.
std::vector<Scripted> Script() {
  std::vector<Scripted> script;
  std::mt19937 random(7);
  for (uint64_t i = 0; i < 16; ++i) {
    Scripted s;
    for (uint64_t c = 0, n = 1 + random() % 60; c < n; ++c) {
      s.prompt.push_back(static_cast<char>('a' + random() % 26));
    }
    s.sampling = {.seed = random(), .max_tokens = static_cast<int32_t>(1 + random() % 40)};
    if (i % 3 == 0 && i % 4 != 1) s.sampling.temperature = 0;
    if (i % 4 == 1) s.sampling.n = 3;
    if (i % 5 == 0) s.sampling.stop = {"ab", "cde", "hg"};
    if (i % 5 == 2) s.sampling.frequency_penalty = 1;
    if (i % 7 == 3) s.sampling.logprobs = 2;
    if (i % 7 == 5) s.sampling.prompt_logprobs = 0;
    script.push_back(std::move(s));
  }
  return script;
}

std::vector<Samples> Alone(const std::vector<Scripted>& script, const FakeOptions& fake) {
  std::vector<Samples> alone;
  for (const Scripted& s : script) {
    Harness h(fake);
    alone.push_back(Generate(*h.engine, s.prompt, s.sampling)->samples());
  }
  return alone;
}

TEST(EngineInterleavingTest, AThousandInterleavingsOfSixteenRequests) {
  const FakeOptions fake{.eos_bias = 9};
  const std::vector<Scripted> script = Script();
  const std::vector<Samples> alone = Alone(script, fake);
  std::mt19937 random(11);
  for (int round = 0; round < 1000; ++round) {
    // Other budgets and places make other batches.
    Harness h(fake, {.max_num_seqs = 3 + static_cast<int64_t>(random() % 20),
                     .max_num_batched_tokens = 1 + static_cast<int64_t>(random() % 50),
                     .state_memory_bytes = 3000 + static_cast<int64_t>(random() % 20000)});
    std::vector<size_t> order(script.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::shared_ptr<RecordingSink>> sinks(script.size());
    for (size_t i : order) {
      sinks[i] = std::make_shared<RecordingSink>();
      ASSERT_TRUE(h.engine->Submit(Ask(sinks[i], script[i].prompt, script[i].sampling)).ok());
      if (random() % 2 == 0) {  // let it run for some steps first
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
      }
    }
    for (size_t i = 0; i < sinks.size(); ++i) {
      ASSERT_TRUE(sinks[i]->Wait().ok());
      ASSERT_EQ(sinks[i]->samples(), alone[i]) << "request " << i << " in round " << round;
    }
    ASSERT_EQ(h.model->live_states, 0);
  }
}

TEST(EngineStressTest, ManyThreadsSubmitCancelPauseAndRead) {
  const FakeOptions fake{.eos_bias = 9};
  const std::vector<Scripted> script = Script();
  const std::vector<Samples> alone = Alone(script, fake);
  Harness h(fake, {.max_num_seqs = 12,
                   .max_num_queued_reqs = 20,
                   .max_num_batched_tokens = 24,
                   .state_memory_bytes = 10000});
  std::atomic<int64_t> accepted = 0;
  std::vector<std::thread> threads;
  threads.reserve(6);
  for (uint32_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int round = 0; round < 60; ++round) {
        std::vector<std::pair<size_t, std::shared_ptr<RecordingSink>>> open;
        for (int i = 0; i < 6; ++i) {
          const size_t which = random() % script.size();
          auto sink = std::make_shared<RecordingSink>();
          const uint32_t fate = random() % 4;
          if (fate == 1) sink->wants_more = false;
          Request request = Ask(sink, script[which].prompt, script[which].sampling);
          if (fate == 2)
            request.deadline =
                std::chrono::steady_clock::now() + std::chrono::milliseconds(random() % 5);
          const auto handle = h.engine->Submit(std::move(request));
          if (!handle.ok()) continue;
          ++accepted;
          if (fate == 3) h.engine->Cancel(*handle);
          open.emplace_back(which, std::move(sink));
          h.engine->stats();
        }
        for (auto& [which, sink] : open) {
          sink->wants_more = true;
          h.engine->Wake();
        }
        for (auto& [which, sink] : open) {
          if (sink->Wait().ok()) {
            EXPECT_EQ(sink->samples(), alone[which]);
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const EngineStats stats = h.engine->stats();
  EXPECT_EQ(stats.requests_finished + stats.requests_cancelled + stats.requests_failed, accepted);
  EXPECT_GT(stats.requests_finished, 0);
  EXPECT_EQ(stats.state_bytes_reserved, 0);
  EXPECT_EQ(h.model->live_states, 0);
}

}  // namespace
}  // namespace tvq
