#ifndef TVQ_SERVER_RPC_TRANSPORT_OPEN_CALLS_H_
#define TVQ_SERVER_RPC_TRANSPORT_OPEN_CALLS_H_

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stop_token>

namespace tvq {

// How many of our calls still have something to do or to send. gRPC counts all calls, also the
// health service's Watch streams, which end only with the server. Any thread.
class OpenCalls {
 public:
  // Whether a call began before WaitForWork was called, or while it waits.
  enum class Came { kBefore, kLate };

  // Every call does all three, once.
  Came Begin() {
    const std::lock_guard lock(mutex_);
    ++open_;
    ++Working(now_);
    return now_;
  }
  // Nothing is left to do but for the client, who may read what was written.
  void Worked(Came came) {
    const std::lock_guard lock(mutex_);
    if (--Working(came) == 0) changed_.notify_all();
  }
  void End() {
    const std::lock_guard lock(mutex_);
    if (--open_ == 0) changed_.notify_all();
  }

  // Returns when the calls that are open now have worked, at `until`, or when `stop` is requested.
  // Later ones, as of a client that asks again and again, do not count.
  void WaitForWork(std::chrono::steady_clock::time_point until, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    now_ = Came::kLate;
    changed_.wait_until(lock, stop, until, [this] { return Working(Came::kBefore) == 0; });
  }
  // Returns when there is none, or at `until`.
  void WaitForNone(std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [this] { return open_ == 0; });
  }

 private:
  int64_t& Working(Came came) { return working_[static_cast<size_t>(came)]; }

  // Not Abseil's, whose waits end by the time of day.
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  int64_t open_ = 0;
  std::array<int64_t, 2> working_{};
  Came now_ = Came::kBefore;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TRANSPORT_OPEN_CALLS_H_
