#include "client/loadtest/driver/driver.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tvq::loadtest {
namespace {

constexpr Nanos kTick = 50 * kMillisecond;
// A user whose request was refused without a time to come back does not hammer on.
constexpr Nanos kPauseAfterFailure = 100 * kMillisecond;
// For cancelled calls to end and sessions to be deleted.
constexpr Nanos kAbandonGrace = 10 * kSecond;
// Users begin one after the other, not in one step.
constexpr Nanos kLongestStart = 2 * kSecond;

// Streams of random numbers beside those of conversations, whose are 1, 2, ...
constexpr uint64_t kArrivalStream = ~uint64_t{0};
constexpr uint64_t kPauseStream = ~uint64_t{1};

}  // namespace

Driver::Driver(Transport& transport, const Workload& workload, const Step& step,
               const Limits& limits, Recorder& recorder, const std::atomic<bool>& interrupted)
    : transport_(transport),
      workload_(workload),
      step_(step),
      limits_(limits),
      recorder_(recorder),
      interrupted_(interrupted),
      arrivals_(step.rate, limits.warm_up, limits.duration, Random(workload.seed, kArrivalStream)),
      pauses_(workload.seed, kPauseStream) {
  environment_ = {.transport = &transport_,
                  .workload = &workload_,
                  .recorder = &recorder_,
                  .timeout = limits.timeout};
  hooks_.wake_at = [this](uint64_t id, Nanos time) {
    At(time, [this, id] {
      if (const auto it = live_.find(id); it != live_.end()) it->second->Wake();
    });
  };
  hooks_.ended = [this](uint64_t id) { Ended(id); };
}

void Driver::set_on_progress(std::function<void(const Progress&)> on_progress) {
  on_progress_ = std::move(on_progress);
}

void Driver::At(Nanos time, std::function<void()> callback) {
  transport_.At(environment_.origin + time, std::move(callback));
}

void Driver::Run() {
  environment_.origin = transport_.Now();
  if (step_.open_loop()) {
    next_arrival_ = arrivals_.Next();
    if (next_arrival_) At(*next_arrival_, [this] { StartDueArrivals(); });
  } else {
    const Nanos spread = std::min(limits_.warm_up / 2, kLongestStart);
    for (int64_t user = 0; user < step_.users; ++user) {
      const Nanos due = spread / step_.users * user;
      At(due, [this, due] { StartUser(due); });
    }
  }
  At(kTick, [this] { Tick(); });
  transport_.Run();
}

void Driver::StartDueArrivals() {
  if (environment_.stopping) return;
  while (next_arrival_ && *next_arrival_ <= Now() && !Exhausted()) {
    Start(*next_arrival_);
    next_arrival_ = arrivals_.Next();
  }
  if (next_arrival_ && !Exhausted()) At(*next_arrival_, [this] { StartDueArrivals(); });
}

void Driver::StartUser(Nanos due) {
  if (!environment_.stopping && !Exhausted()) Start(due);
}

void Driver::Start(Nanos due) {
  recorder_.Arrived(due);
  const bool full = static_cast<int64_t>(live_.size()) >= limits_.max_in_flight;
  if (full && step_.open_loop()) {
    recorder_.Ended({.result = RequestRecord::Result::kFailed,
                     .status = "NOT_SENT",
                     .intended = due,
                     .sent = Now(),
                     .end = Now()});
  } else {
    const uint64_t id = next_id_++;
    const auto& conversation = live_[id] =
        std::make_unique<Conversation>(id, due, &environment_, &hooks_);
    conversation->Start();
  }
  ++started_;
}

void Driver::Ended(uint64_t id) {
  // Still on the stack: freed by the next callback.
  const std::shared_ptr<Conversation> conversation = std::move(live_.extract(id).mapped());
  last_ended_ = Now();
  At(last_ended_, [conversation] {});
  if (step_.open_loop() || environment_.stopping) return;
  Nanos pause =
      static_cast<Nanos>(pauses_.Exponential() * static_cast<double>(workload_.think_time));
  if (conversation->failed()) {
    pause = std::max(pause, conversation->retry_after().value_or(kPauseAfterFailure));
  }
  const Nanos due = last_ended_ + pause;
  At(due, [this, due] { StartUser(due); });
}

void Driver::StopArrivals(Nanos now) {
  if (std::exchange(environment_.stopping, true)) return;
  stopped_at_ = now;
  recorder_.EndAt(now);
  ForAll([](Conversation& conversation) { conversation.Stop(); });
}

void Driver::ForAll(const std::function<void(Conversation&)>& action) {
  std::vector<Conversation*> live;  // some end at once, and leave live_
  live.reserve(live_.size());
  for (const auto& [id, conversation] : live_) live.push_back(conversation.get());
  for (Conversation* conversation : live) action(*conversation);
}

void Driver::Tick() {
  if (done_) return;
  const Nanos now = Now();
  const Nanos end = limits_.warm_up + limits_.duration;
  const bool interrupted = interrupted_.load(std::memory_order_relaxed);
  if (now >= end || interrupted) StopArrivals(std::min(now, end));
  if (Exhausted() && live_.empty()) StopArrivals(last_ended_ + 1);
  for (const auto& [id, conversation] : live_) conversation->CheckTimeout();
  if (on_progress_) on_progress_({now, static_cast<int64_t>(live_.size()), environment_.stopping});
  if (environment_.stopping) {
    const bool late = now - stopped_at_ > limits_.grace || interrupted;
    if (late && !std::exchange(abandoned_, true)) {
      stopped_at_ = now - limits_.grace;
      ForAll([](Conversation& conversation) { conversation.Abandon(); });
    }
    const bool given_up = abandoned_ && now - stopped_at_ > limits_.grace + kAbandonGrace;
    if (live_.empty() || given_up) {
      done_ = true;
      return transport_.Stop();
    }
  }
  At(now + kTick, [this] { Tick(); });
}

}  // namespace tvq::loadtest
