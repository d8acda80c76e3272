// A session as the engine sees it: where the last request ended and the next one starts.
#ifndef TVQ_TESTS_SERVER_ENGINE_TEST_SESSION_H_
#define TVQ_TESTS_SERVER_ENGINE_TEST_SESSION_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/engine/request/continuation.h"

namespace tvq {

// Runs jobs on a thread of its own; at the end whatever is left.
class Worker {
 public:
  Worker() : thread_([this] { Run(); }) {}
  ~Worker() {
    Post({});
    thread_.join();
  }
  void Post(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    changed_.notify_one();
  }

 private:
  void Run() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !jobs_.empty(); });
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      if (!job) return;
      job();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::thread thread_;
};

// Makes `to` the state of the sections of `from`, as one that was stored and comes back.
inline absl::Status LoadSections(const State& from, State& to) {
  std::vector<std::vector<std::byte>> sections;
  std::vector<std::string> names;
  const absl::Status read =
      from.VisitSections([&](const SectionInfo& section, std::span<const std::byte> bytes) {
        if (names.empty() || names.back() != section.name) {
          names.push_back(section.name);
          sections.emplace_back();
        }
        sections.back().insert(sections.back().end(), bytes.begin(), bytes.end());
        return absl::OkStatus();
      });
  if (!read.ok()) return read;
  size_t next = 0;
  return to.Load(from.position(), [&](const SectionInfo& section, std::span<std::byte> bytes) {
    EXPECT_EQ(section.name, names.at(next));
    EXPECT_EQ(bytes.size(), sections[next].size());
    std::ranges::copy(sections[next++], bytes.begin());
    return absl::OkStatus();
  });
}

// Copies from a state that stays as it is, or loads its sections: within the call, or on a worker
// after a while.
class CopySource : public StateSource, public std::enable_shared_from_this<CopySource> {
 public:
  explicit CopySource(std::shared_ptr<const State> from, Worker* worker = nullptr,
                      std::chrono::microseconds delay = {}, bool by_sections = false)
      : from_(std::move(from)), worker_(worker), delay_(delay), by_sections_(by_sections) {}

  void Fill(HeldState blank, Done done) override {
    EXPECT_EQ(blank.state->position(), 0);
    EXPECT_GE(blank.share.bytes(), from_->bytes());
    // std::function copies what it holds.
    auto state = std::make_shared<HeldState>(std::move(blank));
    const auto fill = [this, self = shared_from_this(), state, done = std::move(done)] {
      std::this_thread::sleep_for(delay_);
      const absl::Status status = by_sections_ ? LoadSections(*from_, *state->state)
                                               : state->CopyFirst(*from_, from_->position());
      if (status.ok()) {
        done(std::move(*state));
      } else {
        done(status);
      }
    };
    worker_ == nullptr ? fill() : worker_->Post(fill);
  }

 private:
  std::shared_ptr<const State> from_;  // whatever becomes of the session meanwhile
  Worker* worker_;
  std::chrono::microseconds delay_;
  bool by_sections_;
};

struct TestSession {
  std::shared_ptr<Continuation> at;  // null: an empty context
  std::vector<int32_t> tokens;       // all of them

  std::optional<StartPoint> Start(Worker* worker = nullptr, std::chrono::microseconds delay = {},
                                  bool by_sections = false) const {
    if (!at) return std::nullopt;
    const std::shared_ptr<const State> state(at, at->held.state.get());
    StartPoint start{.source = std::make_shared<CopySource>(state, worker, delay, by_sections),
                     .position = at->held.state->position(),
                     .pending = at->pending,
                     .answer_end = at->answer_end};
    if (!at->logits.empty()) {
      start.logits = std::make_shared<const std::vector<float>>(at->logits);
    }
    return start;
  }

  void Commit(Continuation next) {
    tokens.insert(tokens.end(), next.tokens.begin(), next.tokens.end());
    next.claim.reset();
    at = std::make_shared<Continuation>(std::move(next));
    EXPECT_EQ(at->held.state->position() + static_cast<int64_t>(at->pending.size()),
              static_cast<int64_t>(tokens.size()));
    EXPECT_EQ(at->held.share.bytes(), at->held.OwnBytes());
    EXPECT_NE(at->pending.empty(), at->logits.empty()) << "one of them goes on";
  }

  // Everything that the next request can see.
  std::vector<std::byte> Bits() const {
    std::vector<std::byte> bits;
    const auto add = [&](std::span<const std::byte> bytes) {
      bits.insert(bits.end(), bytes.begin(), bytes.end());
    };
    if (!at) return bits;
    const absl::Status status =
        at->held.state->VisitSections([&](const SectionInfo&, std::span<const std::byte> bytes) {
          add(bytes);
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    add(std::as_bytes(std::span(at->pending)));
    add(std::as_bytes(std::span(at->logits)));
    add(std::as_bytes(std::span(tokens)));
    return bits;
  }
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_ENGINE_TEST_SESSION_H_
