// An engine over fake models.
#ifndef TVQ_TESTS_SERVER_ENGINE_HARNESS_H_
#define TVQ_TESTS_SERVER_ENGINE_HARNESS_H_

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "server/engine/engine.h"
#include "tests/server/engine/fake_model.h"
#include "tests/server/engine/recording_sink.h"

namespace tvq {

inline EngineOptions SmallOptions() {
  return {.max_num_seqs = 16, .max_num_batched_tokens = 32, .state_memory_bytes = 1'000'000};
}

inline std::shared_ptr<RecordingSink> NewSink() { return std::make_shared<RecordingSink>(); }

inline SteadyTime DeadlineIn(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

// Of a request that ends only from outside.
inline constexpr int32_t kForever = 1'000'000'000;
inline SamplingParams Endless() { return {.ignore_eos = true, .max_tokens = kForever}; }

// Holds the loop in its first model call until opened.
class ModelGate {
 public:
  std::function<absl::Status(std::string_view)> Hook() {
    return [this](std::string_view) {
      std::unique_lock lock(mutex_);
      entered_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
      return absl::OkStatus();
    };
  }
  void WaitEntered() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return entered_; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool entered_ = false;
  bool open_ = false;
};

struct Harness {
  explicit Harness(FakeOptions fake = {}, EngineOptions options = SmallOptions(),
                   std::function<absl::Status(std::string_view)> on_call = {})
      : model(std::make_shared<FakeModel>(fake)) {
    model->on_call = std::move(on_call);
    auto created = Engine::Create({{"fake", model}}, options);
    EXPECT_TRUE(created.ok()) << created.status();
    engine = *std::move(created);
  }

  std::shared_ptr<FakeModel> model;
  std::unique_ptr<Engine> engine;
};

inline Request Ask(std::shared_ptr<RecordingSink> sink, std::string_view prompt,
                   SamplingParams sampling = {}) {
  return {.model = "fake",
          .prompt = Ids(prompt),
          .sampling = std::move(sampling),
          .sink = std::move(sink)};
}

// Submits and waits for the end.
inline std::shared_ptr<RecordingSink> Generate(Engine& engine, std::string_view prompt,
                                               SamplingParams sampling = {}) {
  auto sink = std::make_shared<RecordingSink>();
  const auto handle = engine.Submit(Ask(sink, prompt, std::move(sampling)));
  EXPECT_TRUE(handle.ok()) << handle.status();
  if (!handle.ok()) return sink;
  const absl::Status status = sink->Wait();
  EXPECT_TRUE(status.ok()) << status;
  return sink;
}

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_ENGINE_HARNESS_H_
