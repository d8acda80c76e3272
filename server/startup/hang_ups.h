#ifndef TVQ_SERVER_STARTUP_HANG_UPS_H_
#define TVQ_SERVER_STARTUP_HANG_UPS_H_

#include <functional>
#include <memory>

namespace tvq {

// SIGHUP, received by a thread of its own: from an operator, who changed files, or from a terminal
// that was closed. It never ends the process. Construct it before other threads start, so that
// all inherit the blocked signal; used by the main thread.
class HangUps {
 public:
  HangUps();

  // Calls `reload` for each SIGHUP from now on, in the signal's thread; if some came before, once
  // now, in the calling thread. Null: calls nothing. An earlier `reload` is not running any more
  // when this returns.
  void Call(std::function<void()> reload);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_HANG_UPS_H_
