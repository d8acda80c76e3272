// Sessions on a real network, on every kind of device: whatever a sequence of calls meets on its
// way, neighbours, places in the batch, pauses, cancelled attempts, drafts, forks that go another
// way, states that were stored and come back, its outputs and the state it ends with have the bits
// of the same calls made alone.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/conformance/engine_cases.h"
#include "tests/server/engine/recording_sink.h"
#include "tests/server/engine/test_session.h"

namespace tvq::conformance {
namespace {

using std::chrono::microseconds;

constexpr int64_t kChunk = 16;

using Script = std::vector<Request>;  // the calls on one session

std::vector<int32_t> Tokens(std::mt19937_64& random, size_t count) {
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(3 + random() % 256);
  return ids;
}

// Splits of random texts into calls of all kinds.
std::vector<Script> Scripts(uint64_t seed, size_t sessions) {
  std::mt19937_64 random(seed);
  std::vector<Script> scripts(sessions);
  for (Script& script : scripts) {
    for (size_t i = 0, calls = 3 + random() % 4; i < calls; ++i) {
      Request r;
      r.model = "m";
      r.keep = true;
      r.purpose = static_cast<Purpose>(random() % 3);
      const bool may_be_empty = i > 0 && r.purpose != Purpose::kScore;
      r.prompt = Tokens(random, may_be_empty && random() % 4 == 0 ? 0 : 1 + random() % 45);
      r.sampling.max_tokens = static_cast<int32_t>(1 + random() % 12);
      r.sampling.seed = random();
      r.sampling.logprobs = 0;
      if (random() % 3 == 0) r.sampling.prompt_logprobs = 1;
      if (random() % 3 == 0) r.sampling.temperature = 0;
      if (random() % 3 == 0) r.sampling.repetition_penalty = 1.3F;
      // Likely enough to end some samples with an id, after which logits are kept.
      if (random() % 2 == 0) r.sampling.stop_token_ids = Tokens(random, 25);
      // A text that repeats itself, now and then.
      if (random() % 3 == 0) {
        r.sampling.allowed_token_ids = Tokens(random, 1 + random() % 3);
        r.sampling.max_tokens = static_cast<int32_t>(1 + random() % 40);
      }
      script.push_back(std::move(r));
    }
  }
  return scripts;
}

// What a call gave and left behind.
struct Outcome {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;  // of the prompt, then of what was generated, with alternatives
  std::vector<std::byte> bits;
  bool operator==(const Outcome&) const = default;
};

Outcome Describe(const RecordingSink& sink, const TestSession& session) {
  Outcome outcome{.tokens = sink.sample().tokens, .bits = session.Bits()};
  for (const auto& events : {sink.prompt(), sink.sample().events}) {
    for (const TokenEvent& e : events) {
      outcome.logprobs.push_back(e.token.logprob);
      for (const TokenLogprob& t : e.top) outcome.logprobs.push_back(t.logprob);
    }
  }
  return outcome;
}

// A call that is cancelled after a random while and leaves the session as it was.
void TryAndCancel(Engine& engine, const TestSession& session, Request request, Worker& worker,
                  std::mt19937_64& random) {
  auto sink = std::make_shared<RecordingSink>();
  request.start = session.Start(&worker, microseconds(random() % 300));
  request.sampling.max_tokens =
      20'000;  // more than fit in the time, and fewer than any model takes
  request.sampling.stop_token_ids.clear();
  request.sampling.ignore_eos = true;
  request.sink = sink;
  const auto handle = engine.Submit(std::move(request));
  ASSERT_TRUE(handle.ok()) << handle.status();
  std::this_thread::sleep_for(microseconds(random() % 2000));
  engine.Cancel(*handle);
  EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
  EXPECT_FALSE(sink->TakeKept());
}

// A fork of the session that goes another way meanwhile; the caller waits for its end.
std::shared_ptr<RecordingSink> GoAnotherWay(Engine& engine, const TestSession& session,
                                            Worker& worker, std::mt19937_64& random) {
  auto sink = std::make_shared<RecordingSink>();
  Request request;
  request.model = "m";
  request.sink = sink;
  request.prompt = Tokens(random, 1 + random() % 30);
  request.start = session.Start(&worker, microseconds(random() % 300));
  request.sampling.max_tokens = static_cast<int32_t>(1 + random() % 12);
  request.sampling.seed = random();
  const auto handle = engine.Submit(std::move(request));
  EXPECT_TRUE(handle.ok()) << handle.status();
  return handle.ok() ? sink : nullptr;
}

// Makes the calls one after the other; with a worker, with everything that may come between.
std::vector<Outcome> MakeCalls(Engine& engine, const Script& script, Worker* worker,
                               uint64_t seed) {
  std::mt19937_64 random(seed);
  TestSession session;
  std::vector<Outcome> outcomes;
  for (Request request : script) {
    if (worker != nullptr && request.purpose == Purpose::kGenerate && random() % 3 == 0) {
      TryAndCancel(engine, session, request, *worker, random);
    }
    std::shared_ptr<RecordingSink> fork;
    if (worker != nullptr && random() % 4 == 0) {
      fork = GoAnotherWay(engine, session, *worker, random);
    }
    auto sink = std::make_shared<RecordingSink>();
    request.sink = sink;
    const bool stored = worker != nullptr && random() % 3 == 0;
    request.start =
        session.Start(worker, worker ? microseconds(random() % 300) : microseconds(0), stored);
    const bool pause = worker != nullptr && random() % 3 == 0;
    sink->wants_more = !pause;
    const auto handle = engine.Submit(std::move(request));
    EXPECT_TRUE(handle.ok()) << handle.status();
    if (!handle.ok()) break;
    for (int i = 0; pause && i < 3; ++i) {
      std::this_thread::sleep_for(microseconds(random() % 500));
      sink->wants_more = i % 2 == 0;
      engine.Wake();
    }
    EXPECT_TRUE(sink->Wait().ok()) << sink->Wait();
    if (fork) {
      EXPECT_TRUE(fork->Wait().ok()) << fork->Wait();
    }
    std::optional<Continuation> kept = sink->TakeKept();
    EXPECT_TRUE(kept);
    if (!kept) break;
    session.Commit(*std::move(kept));
    outcomes.push_back(Describe(*sink, session));
  }
  return outcomes;
}

class ContinuationConformanceTest : public testing::TestWithParam<EngineCase> {
 protected:
  void SetUp() override { TVQ_SKIP_WITHOUT_DEVICE(GetParam().device); }

  size_t sessions() const { return GetParam().stand_in() ? 3 : 6; }
  // 56 rounds of 6 sessions on 3 engines are a thousand interleavings.
  uint64_t rounds() const { return GetParam().stand_in() ? 1 : GetParam().thorough() ? 56 : 8; }
  Limits few() const { return GetParam().stand_in() ? Limits{1, 40} : Limits{64, 512}; }
  // Much at once, as little as can be, and something between.
  std::vector<Limits> limits() const {
    if (GetParam().stand_in()) return {{2, 40}};
    return {{64, 512, 3}, {3, 1}, {5, 40, 8}};
  }
};

TEST_P(ContinuationConformanceTest, CallsOnASessionHaveTheBitsTheyHaveAlone) {
  const std::unique_ptr<Engine> quiet = MakeEngine(GetParam(), kChunk, few());
  std::vector<std::unique_ptr<Engine>> busy;
  for (const Limits& limits : limits()) busy.push_back(MakeEngine(GetParam(), kChunk, limits));
  for (uint64_t round = 0; round < rounds(); ++round) {
    const std::vector<Script> scripts = Scripts(100 + round, sessions());
    std::vector<std::vector<Outcome>> alone;
    alone.reserve(scripts.size());
    for (const Script& script : scripts) alone.push_back(MakeCalls(*quiet, script, nullptr, 0));
    for (const std::unique_ptr<Engine>& engine : busy) {
      std::vector<std::vector<Outcome>> together(sessions());
      {
        Worker worker;
        std::vector<std::thread> threads;
        threads.reserve(sessions());
        for (size_t i = 0; i < sessions(); ++i) {
          threads.emplace_back([&, i] {
            together[i] = MakeCalls(*engine, scripts[i], &worker, round * sessions() + i);
          });
        }
        for (std::thread& thread : threads) thread.join();
      }
      for (size_t i = 0; i < sessions(); ++i) {
        ASSERT_EQ(together[i].size(), scripts[i].size());
        ASSERT_EQ(together[i], alone[i]) << "session " << i << " round " << round;
      }
      ASSERT_EQ(engine->stats().state_bytes_reserved, 0);
    }
  }
  int64_t drafted = 0, accepted = 0;
  for (const std::unique_ptr<Engine>& engine : busy) {
    drafted += engine->stats().draft_tokens;
    accepted += engine->stats().draft_tokens_accepted;
  }
  EXPECT_EQ(accepted > 0, GetParam().drafts());
  EXPECT_EQ(drafted > accepted, GetParam().drafts());
}

// Keeps copies by their length.
class Prefixes : public PrefixSink {
 public:
  void OnPrefix(int64_t prompt_tokens, HeldState copy) override {
    copies.emplace_back(prompt_tokens, std::move(copy));
  }
  std::vector<std::pair<int64_t, HeldState>> copies;
};

TEST_P(ContinuationConformanceTest, AKeptPrefixHasTheBitsOfFeedingIt) {
  const std::unique_ptr<Engine> engine = MakeEngine(GetParam(), kChunk, {8, 64});
  std::mt19937_64 random(5);
  const auto prefixes = std::make_shared<Prefixes>();
  Request request;
  request.model = "m";
  request.keep = true;
  request.prompt = Tokens(random, 5 * kChunk + 3);
  request.sampling.seed = 1;
  request.sampling.logprobs = 0;
  request.sampling.max_tokens = 9;
  const auto outcome = [&](const Request& r) {
    auto sink = std::make_shared<RecordingSink>();
    Request submitted = r;
    submitted.sink = sink;
    EXPECT_TRUE(engine->Submit(std::move(submitted)).ok());
    EXPECT_TRUE(sink->Wait().ok()) << sink->Wait();
    TestSession session;
    session.Commit(sink->TakeKept().value());
    return Describe(*sink, session);
  };
  const Outcome whole = outcome(request);
  Request giving = request;
  giving.prefix_marks = {kChunk, 3 * kChunk, 5 * kChunk};
  giving.prefixes = prefixes;
  EXPECT_EQ(outcome(giving), whole);
  ASSERT_EQ(prefixes->copies.size(), 3U);
  for (const auto& [length, copy] : prefixes->copies) {
    Request hit = request;
    const std::shared_ptr<const State> state(prefixes, copy.state.get());
    hit.start = StartPoint{
        .source = std::make_shared<CopySource>(state), .position = length, .prompt_tokens = length};
    EXPECT_EQ(outcome(hit), whole) << length;
  }
  prefixes->copies.clear();
}

INSTANTIATE_TEST_SUITE_P(Devices, ContinuationConformanceTest, testing::ValuesIn(EngineCases()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tvq::conformance
