// One of the threads that share an op, as the others see it.
//
// Another process may take a core for some milliseconds at a time. If a thread is taken off its
// core in the middle of a task, the op waits for that thread while the other cores have nothing to
// do. The system moves a thread to an idle core only after half a millisecond or more. So another
// thread of the op that has run out of tasks lends its own core to that thread, and sleeps
// meanwhile. The core on which a task runs does not matter to the task's result.
#ifndef TVQ_KERNELS_CPU_POOL_THREAD_H_
#define TVQ_KERNELS_CPU_POOL_THREAD_H_

#include <pthread.h>
#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tvq {

class PoolThread {
 public:
  // Called by the thread itself before all other functions, and by any other thread that takes its
  // place.
  void Bind();

  // Called by the thread itself; between Begin and End it may hold a task. End gives back a lent
  // core and restores the thread's affinity: the thread returns to the core where it was at Begin
  // or, if that is the lent one, to any other.
  void Begin();
  void End();

  // Called by the other threads.
  bool working() const { return state_.load(std::memory_order_relaxed) != State::kIdle; }
  // The thread's CPU time so far; it stands still while the thread is off its core.
  std::chrono::nanoseconds CpuTime() const;
  // Moves the thread to the core of the caller, which should then sleep. LendCore and GiveCore do
  // nothing and return false where the thread is not working, may not run on that core or has been
  // lent a core already.
  bool LendCore() { return Move(State::kLent); }
  // Like LendCore, but for good: the caller moves to the core where the thread was at Begin.
  bool GiveCore();

 private:
  enum class State : uint32_t { kIdle, kWorking, kMoving, kLent, kGiven };

  bool Move(State as);

  // These are of the thread that was bound last.
  std::atomic<pid_t> id_{0};
  std::atomic<clockid_t> clock_{0};

  alignas(64) std::atomic<State> state_{State::kIdle};
  std::atomic<int> home_{0};  // the core where it was at Begin
  // Used by the thread that set state_ to kMoving, until it is kLent or kGiven; then by the thread
  // itself.
  cpu_set_t affinity_ = {};
  int lent_ = 0;
};

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_POOL_THREAD_H_
