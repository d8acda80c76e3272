#ifndef TVQ_TESTS_SERVER_ENGINE_MANUAL_SOURCE_H_
#define TVQ_TESTS_SERVER_ENGINE_MANUAL_SOURCE_H_

#include <condition_variable>
#include <mutex>
#include <utility>

#include "server/engine/request/continuation.h"

namespace tvq {

// Hands over when it is told to.
class ManualSource : public StateSource {
 public:
  void Fill(HeldState blank, Done done) override {
    const std::lock_guard lock(mutex_);
    blank_ = std::move(blank);
    done_ = std::move(done);
    changed_.notify_all();
  }
  void WaitAsked() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_ != nullptr; });
  }
  void Finish() { done_(std::move(blank_)); }
  void Fail(const absl::Status& status) { done_(status); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  HeldState blank_;
  Done done_;
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_ENGINE_MANUAL_SOURCE_H_
