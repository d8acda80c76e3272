// A sink that keeps everything and checks the order of the calls.
#ifndef TVQ_TESTS_SERVER_ENGINE_RECORDING_SINK_H_
#define TVQ_TESTS_SERVER_ENGINE_RECORDING_SINK_H_

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/request/request.h"

namespace tvq {

class RecordingSink : public RequestSink {
 public:
  struct Sample {
    std::string text;
    std::vector<int32_t> tokens;
    std::vector<TokenEvent> events;
    FinishReason finish = FinishReason::kNone;
    std::optional<std::string> stop_string;
    std::optional<int32_t> stop_token;
    bool operator==(const Sample& o) const {
      return text == o.text && tokens == o.tokens && finish == o.finish &&
             stop_string == o.stop_string && stop_token == o.stop_token;
    }
  };

  void OnStart() override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(started_) << "started twice";
    EXPECT_FALSE(done_);
    started_ = true;
    changed_.notify_all();
  }

  void OnPrompt(int64_t first, std::vector<TokenEvent> events) override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(started_ && !done_);
    EXPECT_EQ(first, static_cast<int64_t>(prompt_.size()));
    ++prompt_pieces_;
    prompt_.insert(prompt_.end(), events.begin(), events.end());
  }

  void OnDelta(Delta delta) override {
    if (on_delta) on_delta(delta);
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(started_ && !done_);
    Sample& s = samples_[delta.index];
    EXPECT_EQ(s.finish, FinishReason::kNone) << "a delta after the end";
    s.text += delta.text;
    for (TokenEvent& e : delta.tokens) {
      s.tokens.push_back(e.token.id);
      s.events.push_back(std::move(e));
    }
    s.finish = delta.finish;
    s.stop_string = delta.stop_string;
    s.stop_token = delta.stop_token;
    ++deltas_;
    changed_.notify_all();
  }

  void OnDelivered() override {
    if (on_delivered) on_delivered();
  }

  void OnEncoded(std::vector<float> vectors) override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(started_ && !done_ && !vectors_);
    vectors_ = std::move(vectors);
  }

  void OnKept(Continuation continuation) override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(started_ && !done_ && !kept_);
    kept_ = std::move(continuation);
  }

  void OnEnd(const absl::Status& status, const Usage& usage) override {
    if (on_done) on_done();
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(done_) << "done twice";
    done_ = true;
    status_ = status;
    usage_ = usage;
    changed_.notify_all();
  }

  bool WantsMore() const override { return wants_more; }

  // The request's outcome, once it is done.
  absl::Status Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    return status_;
  }
  void WaitStarted() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return started_ || done_; });
  }
  void WaitDeltas(int64_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return deltas_ >= count || done_; });
  }

  // What the request left, if it did.
  std::optional<Continuation> TakeKept() {
    const std::lock_guard lock(mutex_);
    return std::exchange(kept_, std::nullopt);
  }

  bool started() const { return Locked(started_); }
  bool done() const { return Locked(done_); }
  int64_t deltas() const { return Locked(deltas_); }
  int64_t prompt_pieces() const { return Locked(prompt_pieces_); }
  Usage usage() const { return Locked(usage_); }
  std::map<int32_t, Sample> samples() const { return Locked(samples_); }
  Sample sample() const { return samples()[0]; }
  std::vector<TokenEvent> prompt() const { return Locked(prompt_); }
  std::optional<std::vector<float>> vectors() const { return Locked(vectors_); }

  std::atomic<bool> wants_more = true;
  // Set before the request is submitted.
  std::function<void(const Delta&)> on_delta;
  std::function<void()> on_delivered;
  std::function<void()> on_done;

 private:
  template <typename T>
  T Locked(const T& field) const {
    const std::lock_guard lock(mutex_);
    return field;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  bool done_ = false;
  absl::Status status_;
  Usage usage_;
  std::map<int32_t, Sample> samples_;
  std::vector<TokenEvent> prompt_;
  std::optional<std::vector<float>> vectors_;
  std::optional<Continuation> kept_;
  int64_t deltas_ = 0;
  int64_t prompt_pieces_ = 0;
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_ENGINE_RECORDING_SINK_H_
