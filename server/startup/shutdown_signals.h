#ifndef TVQ_SERVER_STARTUP_SHUTDOWN_SIGNALS_H_
#define TVQ_SERVER_STARTUP_SHUTDOWN_SIGNALS_H_

#include <functional>
#include <memory>

#include "server/rpc/services/drain_order.h"

namespace tvq {

// Why a server stops.
struct Shutdown {
  int signal = 0;    // 0: an order came first
  DrainOrder order;  // without timeout if a signal came first
};

// SIGTERM and SIGINT, received by a thread of their own, and orders to drain. Construct it before
// any other thread starts, so that all inherit the blocked signals; used by the main thread.
class ShutdownSignals {
 public:
  // Until Arm a signal ends the process at once: nothing is being served yet.
  ShutdownSignals();

  // From here on a signal is kept for Wait. Call it before clients can learn the address.
  void Arm();

  // Wakes Wait as a first signal does, unless it was woken before. Any thread. An order is no
  // signal: the next signal counts as the first, and changes nothing. An orchestrator may have the
  // server drained, and then stop it.
  void Order(const DrainOrder& order);

  // Blocks until the first signal or order. `on_second` is called, in the signals' thread, when a
  // second signal comes before Disarm.
  Shutdown Wait(std::function<void()> on_second);

  // Further signals do nothing; on_second is not running when this returns.
  void Disarm();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_SHUTDOWN_SIGNALS_H_
