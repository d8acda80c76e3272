// The engine on a real network: whatever else runs, in whatever order requests come, each has the
// tokens it has alone.

#include "server/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "models/runtime/registry.h"
#include "models/runtime/tokenizer/tokenizer.h"
#include "tests/conformance/oracle.h"
#include "tests/conformance/test_weights.h"

namespace tvq::conformance {
namespace {

// Collects a request's tokens and their log-probabilities per sample.
class Collector : public RequestSink {
 public:
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
    const std::lock_guard lock(mutex_);
    output_.text[delta.index] += delta.text;
    for (const TokenEvent& e : delta.tokens) {
      output_.tokens[delta.index].push_back(e.token.id);
      output_.logprobs[delta.index].push_back(e.token.logprob);
    }
  }
  void OnDone(const absl::Status& status, const Usage&) override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(status.ok()) << status;
    done_ = true;
    changed_.notify_all();
  }
  Output Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    return output_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Output output_;
};

// With three engines, two dtypes and two numbers of threads, a thousand interleavings in all.
constexpr int kRounds = 84;

// Sixteen requests that differ in everything that could couple them.
std::vector<Request> Requests() {
  std::mt19937_64 random(20);
  std::vector<Request> requests(16);
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& r = requests[i];
    r.model = "m";
    const size_t length = 1 + random() % 90;
    for (size_t t = 0; t < length; ++t)
      r.prompt.push_back(static_cast<int32_t>(3 + random() % 256));
    r.sampling.max_tokens = static_cast<int32_t>(1 + random() % 24);
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

class EngineConformanceTest : public testing::TestWithParam<std::tuple<DType, int>> {
 protected:
  std::unique_ptr<Engine> MakeEngine(int64_t max_num_seqs, int64_t max_num_batched_tokens) {
    Shape shape;
    shape.vocab = 259;
    shape.n_head = 2;
    shape.n_kv_head = 1;
    shape.mem_len = 13;
    shape.prefill_chunk = 16;
    LoadOptions options;
    options.device = MakeDevice("cpu", std::get<1>(GetParam())).value();
    options.dtype = std::get<0>(GetParam());
    const Config config = Config::Parse(shape.Json(), "test").value();
    TestWeights weights(1);
    std::shared_ptr<Model> model =
        BuildModel(config, weights, LoadTokenizer("", config.Common().value()).value(), options)
            .value();
    EngineOptions engine;
    engine.max_num_seqs = max_num_seqs;
    engine.max_num_batched_tokens = max_num_batched_tokens;
    engine.state_memory_bytes = int64_t{1} << 28;
    return Engine::Create({{.name = "m", .model = model}}, engine).value();
  }
};

TEST_P(EngineConformanceTest, EachRequestHasTheTokensItHasAlone) {
  const std::vector<Request> requests = Requests();
  std::vector<Collector::Output> alone;
  {
    const std::unique_ptr<Engine> engine = MakeEngine(64, 512);
    for (Request request : requests) {
      auto sink = std::make_shared<Collector>();
      request.sink = sink;
      ASSERT_TRUE(engine->Submit(std::move(request)).ok());
      alone.push_back(sink->Wait());
      EXPECT_FALSE(alone.back().tokens.empty());
    }
  }
  std::mt19937_64 random(21);
  for (const auto& [max_num_seqs, max_num_batched_tokens] :
       std::vector<std::pair<int64_t, int64_t>>{{64, 512}, {3, 1}, {17, 40}}) {
    const std::unique_ptr<Engine> engine = MakeEngine(max_num_seqs, max_num_batched_tokens);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<size_t> order(requests.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      std::vector<std::shared_ptr<Collector>> sinks(requests.size());
      for (size_t i : order) {
        Request request = requests[i];
        sinks[i] = std::make_shared<Collector>();
        request.sink = sinks[i];
        ASSERT_TRUE(engine->Submit(std::move(request)).ok());
        // Now and then a gap, so that requests join a batch that is under way.
        if (random() % 3 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      }
      for (size_t i = 0; i < requests.size(); ++i) {
        ASSERT_EQ(sinks[i]->Wait(), alone[i]) << "request " << i << " round " << round;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, EngineConformanceTest,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16),
                                          testing::Values(1, 3)),
                         [](const auto& info) {
                           return std::string(Name(std::get<0>(info.param))) + "_" +
                                  std::to_string(std::get<1>(info.param)) + "_threads";
                         });

}  // namespace
}  // namespace tvq::conformance
