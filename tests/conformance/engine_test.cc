// The engine on a real network, on every kind of device: whatever else runs, in whatever order
// requests come, each has the tokens it has alone.

#include "server/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/conformance/engine_cases.h"

namespace tvq::conformance {
namespace {

// Collects a request's tokens and their log-probabilities per sample.
class Collector : public RequestSink {
 public:
  // `at_once`: pieces of output after which it wants no more until Read is called; 0: reads all.
  explicit Collector(int64_t at_once = 0) : at_once_(at_once) {}

  struct Output {
    std::map<int32_t, std::vector<int32_t>> tokens;
    std::map<int32_t, std::vector<float>> logprobs;
    std::map<int32_t, std::string> text;
    std::vector<float> prompt_logprobs;
    bool operator==(const Output&) const = default;
  };

  void OnPrompt(int64_t, std::vector<TokenEvent> events) override {
    const std::lock_guard lock(mutex_);
    for (const TokenEvent& e : events) output_.prompt_logprobs.push_back(e.token.logprob);
  }
  void OnDelta(Delta delta) override {
    ++unread_;
    const std::lock_guard lock(mutex_);
    output_.text[delta.index] += delta.text;
    for (const TokenEvent& e : delta.tokens) {
      output_.tokens[delta.index].push_back(e.token.id);
      output_.logprobs[delta.index].push_back(e.token.logprob);
    }
  }
  void OnEnd(const absl::Status& status, const Usage&) override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(status.ok()) << status;
    done_ = true;
    changed_.notify_all();
  }
  bool WantsMore() const override { return at_once_ == 0 || unread_ < at_once_; }
  // Whether it did not want more.
  bool Read() {
    const bool was_full = !WantsMore();
    unread_ = 0;
    return was_full;
  }
  Output Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    return output_;
  }

 private:
  const int64_t at_once_;
  std::atomic<int64_t> unread_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Output output_;
};

// Reads now and then what waits, until it is destroyed.
class SlowReaders {
 public:
  SlowReaders(Engine& engine, const std::vector<std::shared_ptr<Collector>>& sinks)
      : thread_([&engine, sinks](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            std::this_thread::sleep_for(std::chrono::microseconds(500));
            bool wake = false;
            for (const auto& sink : sinks) wake |= sink->Read();
            if (wake) engine.Wake();
          }
        }) {}

 private:
  std::jthread thread_;
};

// Whose a request is, how urgent, and how it is read: none of its tokens depend on that.
void DrawOwner(std::mt19937_64& random, Request* request) {
  const size_t owner = random() % 3;
  request->owner = std::string(owner, 'a');
  request->owner_limits.weight = static_cast<int32_t>(1 + 2 * owner);
  request->owner_limits.max_num_seqs = owner == 2 ? 3 : 0;
  request->priority = static_cast<int32_t>(random() % 5) - 2;
}

constexpr int64_t kChunk = 16;

// Requests that differ in everything that could couple them; eight have one of each kind. Of up to
// so many tokens are prompt and answer.
std::vector<Request> Requests(size_t count, uint64_t prompt, uint64_t answer) {
  std::mt19937_64 random(20);
  std::vector<Request> requests(count);
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& r = requests[i];
    r.model = "m";
    const size_t length = 1 + random() % prompt;
    for (size_t t = 0; t < length; ++t)
      r.prompt.push_back(static_cast<int32_t>(3 + random() % 256));
    r.sampling.max_tokens = static_cast<int32_t>(1 + random() % answer);
    r.sampling.seed = random();
    r.sampling.logprobs = 0;
    r.sampling.ignore_eos = true;
    if (i % 3 == 0) r.sampling.n = 3;
    if (i % 4 == 1) r.sampling.top_p = 0.8F;
    if (i % 4 == 2) r.sampling.top_k = 9;
    if (i % 5 == 0) r.sampling.repetition_penalty = 1.3F;
    if (i % 5 == 1) r.sampling.presence_penalty = 0.7F;
    if (i % 7 == 3) r.sampling.prompt_logprobs = 0;
  }
  requests[7].sampling.temperature = 0;
  requests[7].sampling.n = 1;
  return requests;
}

class EngineConformanceTest : public testing::TestWithParam<EngineCase> {
 protected:
  void SetUp() override { TVQ_SKIP_WITHOUT_DEVICE(GetParam().device); }

  // With three engines, three types and two numbers of threads, 180 interleavings on the CPU, of
  // owners, priorities and readers drawn anew each time.
  int rounds() const { return GetParam().stand_in() ? 1 : 10; }
  Limits few() const { return GetParam().stand_in() ? Limits{3, 40} : Limits{64, 512}; }
  // Much at once, as little as can be, and something between.
  std::vector<Limits> limits() const {
    if (GetParam().stand_in()) return {{6, 40}};
    return {{64, 512}, {3, 1}, {17, 40}};
  }
};

TEST_P(EngineConformanceTest, EachRequestHasTheTokensItHasAlone) {
  const std::vector<Request> requests =
      GetParam().stand_in() ? Requests(8, 40, 8) : Requests(16, 90, 24);
  std::vector<Collector::Output> alone;
  {
    const std::unique_ptr<Engine> engine = MakeEngine(GetParam(), kChunk, few());
    for (Request request : requests) {
      auto sink = std::make_shared<Collector>();
      request.sink = sink;
      ASSERT_TRUE(engine->Submit(std::move(request)).ok());
      alone.push_back(sink->Wait());
      EXPECT_FALSE(alone.back().tokens.empty());
    }
  }
  std::mt19937_64 random(21);
  for (const Limits& limits : limits()) {
    const std::unique_ptr<Engine> engine = MakeEngine(GetParam(), kChunk, limits);
    for (int round = 0; round < rounds(); ++round) {
      std::vector<size_t> order(requests.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      std::vector<std::shared_ptr<Collector>> sinks(requests.size());
      for (size_t i : order) {
        Request request = requests[i];
        DrawOwner(random, &request);
        sinks[i] = std::make_shared<Collector>(static_cast<int64_t>(random() % 4));
        request.sink = sinks[i];
        ASSERT_TRUE(engine->Submit(std::move(request)).ok());
        // Now and then a gap, so that requests join a batch that is under way.
        if (random() % 3 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      }
      const SlowReaders readers(*engine, sinks);
      for (size_t i = 0; i < requests.size(); ++i) {
        ASSERT_EQ(sinks[i]->Wait(), alone[i]) << "request " << i << " round " << round;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, EngineConformanceTest, testing::ValuesIn(EngineCases()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tvq::conformance
