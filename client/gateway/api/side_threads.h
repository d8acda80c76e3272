#ifndef TVQ_CLIENT_GATEWAY_API_SIDE_THREADS_H_
#define TVQ_CLIENT_GATEWAY_API_SIDE_THREADS_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "base/task_threads.h"
#include "client/gateway/http/peers.h"

namespace tvq::gateway {

// Threads for what would stop the loop. Addresses take turns, and a short task overtakes long ones
// that wait, as far as its length goes.
class SideThreads {
  using Threads = TaskThreads<std::shared_ptr<Peer>>;

 public:
  explicit SideThreads(int threads)
      : threads_({.threads = threads, .order = Threads::Order::kShortFirst}) {}

  // Any thread. `task`, work on so many bytes for `peer`, does not throw.
  void Schedule(const std::shared_ptr<Peer>& peer, size_t bytes, Threads::Task task) {
    threads_.Schedule(peer, bytes, /*is_short=*/false, std::move(task));
  }

 private:
  Threads threads_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_SIDE_THREADS_H_
