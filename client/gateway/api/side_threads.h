#ifndef TVQ_CLIENT_GATEWAY_API_SIDE_THREADS_H_
#define TVQ_CLIENT_GATEWAY_API_SIDE_THREADS_H_

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace tvq::gateway {

// Threads for what would stop the loop. A short task overtakes long ones that wait, as far as its
// length goes: it waits for no more bytes of tasks that come later than it has itself.
class SideThreads {
 public:
  explicit SideThreads(int threads);
  // Runs what was scheduled.
  ~SideThreads();
  SideThreads(const SideThreads&) = delete;

  // Any thread. `task`, work on so many bytes, does not throw.
  void Schedule(size_t bytes, absl::AnyInvocable<void()> task);

 private:
  struct Task {
    uint64_t turn;  // lower first
    uint64_t number;
    size_t bytes;
    absl::AnyInvocable<void()> run;

    bool operator<(const Task& other) const {
      return turn != other.turn ? turn > other.turn : number > other.number;
    }
  };

  void Loop();

  absl::Mutex mutex_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);  // a heap
  uint64_t begun_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t scheduled_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // constant after construction
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_SIDE_THREADS_H_
