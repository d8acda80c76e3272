// One of the threads that share an op, as its fellows see it.
//
// Another process on a core takes it for some milliseconds at a time, and an op whose one thread
// was taken off in the middle of a task waits for it while the other cores have nothing to do. The
// system moves a thread to an idle core only after half a millisecond or more. So a fellow that has
// run out of tasks lends it the core that it itself stands on and waits asleep; where the task runs
// does not matter to its result.
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
  // By the thread itself, before all others, and by whichever takes its place.
  void Bind();

  // By the thread itself: between them it may hold a task. End returns a lent core and has the
  // thread's affinity as it was: it goes back to where it stood at Begin or, where that is the lent
  // core, to any other.
  void Begin();
  void End();

  // By fellows.
  bool working() const { return state_.load(std::memory_order_relaxed) != State::kIdle; }
  // What it has computed so far; stands still while it is off its core.
  std::chrono::nanoseconds CpuTime() const;
  // Moves the thread to the core of the caller, which then does well to sleep. Both do nothing and
  // return false where it is not working, may not run there or has been lent a core.
  bool LendCore() { return Move(State::kLent); }
  // As LendCore, but for good: the caller moves to where the thread stood.
  bool GiveCore();

 private:
  enum class State : uint32_t { kIdle, kWorking, kMoving, kLent, kGiven };

  bool Move(State as);

  // Of the thread that was bound last.
  std::atomic<pid_t> id_{0};
  std::atomic<clockid_t> clock_{0};

  alignas(64) std::atomic<State> state_{State::kIdle};
  std::atomic<int> home_{0};  // where it stood at Begin
  // Of the thread that made state_ kMoving, until it is kLent or kGiven; then of the thread.
  cpu_set_t affinity_ = {};
  int lent_ = 0;
};

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_POOL_THREAD_H_
