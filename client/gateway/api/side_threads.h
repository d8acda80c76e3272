#ifndef TVQ_CLIENT_GATEWAY_API_SIDE_THREADS_H_
#define TVQ_CLIENT_GATEWAY_API_SIDE_THREADS_H_

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "base/task_turns.h"
#include "client/gateway/http/peers.h"

namespace tvq::gateway {

// Threads for what would stop the loop. Addresses take turns, and a short task overtakes long ones
// that wait, as far as its length goes (TaskTurns).
class SideThreads {
 public:
  explicit SideThreads(int threads);
  // Runs what was scheduled.
  ~SideThreads();
  SideThreads(const SideThreads&) = delete;

  // Any thread. `task`, work on so many bytes for `peer`, does not throw.
  void Schedule(std::shared_ptr<Peer> peer, size_t bytes, absl::AnyInvocable<void()> task);

 private:
  using Turns = TaskTurns<std::shared_ptr<Peer>, absl::AnyInvocable<void()>>;

  void Loop();

  absl::Mutex mutex_;
  Turns turns_ ABSL_GUARDED_BY(mutex_){Turns::Order::kShortFirst};
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // constant after construction
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_SIDE_THREADS_H_
