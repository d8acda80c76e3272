#ifndef TVQ_SERVER_STARTUP_SHUTDOWN_SIGNALS_H_
#define TVQ_SERVER_STARTUP_SHUTDOWN_SIGNALS_H_

#include <functional>
#include <memory>

namespace tvq {

// SIGTERM and SIGINT, received by a thread of their own. Construct it before any other thread
// starts, so that all inherit the blocked signals; used by the main thread.
class ShutdownSignals {
 public:
  // Until Arm a signal ends the process at once: nothing is being served yet.
  ShutdownSignals();

  // From here on a signal is kept for Wait. Call it before clients can learn the address.
  void Arm();

  // Blocks until the first signal and returns its number. `on_second` is called, in the signals'
  // thread, when another one comes before Disarm.
  int Wait(std::function<void()> on_second);

  // Further signals do nothing; on_second is not running when this returns.
  void Disarm();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_SHUTDOWN_SIGNALS_H_
