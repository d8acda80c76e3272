// Locks that clang's analysis and ThreadSanitizer both understand. The locks of the packaged Abseil
// are not built for ThreadSanitizer.
#ifndef TVQ_BASE_MUTEX_H_
#define TVQ_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace tvq {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  // For the analysis, where it cannot see that the mutex is held. Checks nothing.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class Changed;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// That something guarded by a mutex has changed.
class Changed {
 public:
  // Returns when `ready` is true. Called, and calls `ready`, with the mutex held.
  template <typename Ready>
  void Await(Mutex* mutex, Ready ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock lock(mutex->mutex_, std::adopt_lock);
    condition_.wait(lock, ready);
    lock.release();
  }
  // Returns also at that time, unless it is max(): false unless `ready` is true then.
  template <typename Ready>
  bool AwaitUntil(Mutex* mutex, std::chrono::steady_clock::time_point time, Ready ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    // Libraries overflow on the largest time point.
    if (time == std::chrono::steady_clock::time_point::max()) {
      Await(mutex, ready);
      return true;
    }
    std::unique_lock lock(mutex->mutex_, std::adopt_lock);
    const bool is_ready = condition_.wait_until(lock, time, ready);
    lock.release();
    return is_ready;
  }
  void Notify() { condition_.notify_all(); }
  // Enough where each of those that wait would do.
  void NotifyOne() { condition_.notify_one(); }

 private:
  std::condition_variable condition_;
};

}  // namespace tvq

#endif  // TVQ_BASE_MUTEX_H_
