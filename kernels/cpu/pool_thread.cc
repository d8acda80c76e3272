#include "kernels/cpu/pool_thread.h"

#include <unistd.h>

#include <ctime>
#include <thread>

namespace tvq {
namespace {

cpu_set_t Only(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return set;
}

// Moves the calling thread to one of `cores`, and from then on lets it go where `affinity` allows.
void MoveTo(const cpu_set_t& cores, const cpu_set_t& affinity) {
  if (CPU_COUNT(&cores) > 0) sched_setaffinity(0, sizeof(cores), &cores);
  sched_setaffinity(0, sizeof(affinity), &affinity);
}

}  // namespace

void PoolThread::Bind() {
  thread_local const pid_t id = gettid();
  if (id_.load(std::memory_order_relaxed) == id) return;
  clockid_t clock = {};
  pthread_getcpuclockid(pthread_self(), &clock);
  clock_.store(clock, std::memory_order_relaxed);
  id_.store(id, std::memory_order_relaxed);
}

void PoolThread::Begin() {
  home_.store(sched_getcpu(), std::memory_order_relaxed);
  state_.store(State::kWorking, std::memory_order_release);
}

void PoolThread::End() {
  State state = State::kWorking;
  while (!state_.compare_exchange_weak(state, State::kIdle, std::memory_order_acq_rel)) {
    if (state == State::kLent || state == State::kGiven) break;
    // Another thread is between the two system calls of a move, and may be off its core itself.
    if (state == State::kMoving) std::this_thread::yield();
    state = State::kWorking;
  }
  if (state == State::kWorking) return;
  cpu_set_t back = {};
  const int home = home_.load(std::memory_order_relaxed);
  if (state == State::kLent && home != lent_ && CPU_ISSET(home, &affinity_)) {
    back = Only(home);
  } else if (state == State::kLent) {
    back = affinity_;
    CPU_CLR(lent_, &back);
  }
  MoveTo(back, affinity_);
  state_.store(State::kIdle, std::memory_order_relaxed);
}

std::chrono::nanoseconds PoolThread::CpuTime() const {
  timespec time = {};
  clock_gettime(clock_.load(std::memory_order_relaxed), &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool PoolThread::Move(State as) {
  State working = State::kWorking;
  if (!state_.compare_exchange_strong(working, State::kMoving, std::memory_order_acq_rel)) {
    return false;
  }
  const pid_t id = id_.load(std::memory_order_relaxed);
  lent_ = sched_getcpu();
  const cpu_set_t core = Only(lent_);
  const bool moved = sched_getaffinity(id, sizeof(affinity_), &affinity_) == 0 &&
                     CPU_ISSET(lent_, &affinity_) &&
                     sched_setaffinity(id, sizeof(core), &core) == 0;
  state_.store(moved ? as : State::kWorking, std::memory_order_release);
  return moved;
}

bool PoolThread::GiveCore() {
  const int home = home_.load(std::memory_order_relaxed);
  cpu_set_t affinity;
  if (sched_getaffinity(0, sizeof(affinity), &affinity) != 0 || !Move(State::kGiven)) return false;
  if (CPU_ISSET(home, &affinity)) MoveTo(Only(home), affinity);
  return true;
}

}  // namespace tvq
