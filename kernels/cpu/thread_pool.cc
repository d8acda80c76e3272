#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "base/long_slices.h"
#include "kernels/cpu/pause.h"
#include "kernels/cpu/pool_thread.h"

namespace tvq {
namespace {

// How long a worker stays awake after its last task: longer than the gaps between the ops of one
// decode step, shorter than anyone would notice on an idle server.
constexpr std::chrono::microseconds kSpinBeforeParking{100};
constexpr int kPausesPerClockRead = 32;
constexpr int kPausesBeforeClock = 256;  // usually all tasks are done by then
// A caller that has waited this long lets other threads run on its core, if there are any.
constexpr std::chrono::microseconds kSpinBeforeYield{200};
// A thread that has waited this long for another checks whether that one has a core. The time
// between two checks is long enough to tell, and a check costs little compared with it.
constexpr std::chrono::microseconds kFirstLook{40};
constexpr std::chrono::microseconds kBetweenLooks{20};

constexpr uint64_t kRemainingMask = 0xffffffffU;

using Clock = std::chrono::steady_clock;

// Finds, for a waiting thread, other threads that hold a task and were taken off their cores.
class Lookout {
 public:
  Lookout(std::span<PoolThread> threads, Clock::time_point now)
      : threads_(threads), next_look_(now + kFirstLook) {}

  // Returns such a thread if it has found one, else null. It watches one thread at a time, from one
  // check to the next.
  PoolThread* Look(Clock::time_point now) {
    if (now < next_look_) return nullptr;
    PoolThread* off = nullptr;
    if (watched_ != nullptr && watched_->working()) {
      const auto computed = watched_->CpuTime() - cpu_time_;
      if (2 * computed < now - since_) off = watched_;
    }
    watched_ = NextAtWork();
    since_ = now;
    if (watched_ != nullptr) cpu_time_ = watched_->CpuTime();
    next_look_ = now + kBetweenLooks;
    return off;
  }

 private:
  PoolThread* NextAtWork() {
    for (size_t i = 0; i < threads_.size(); ++i) {
      position_ = (position_ + 1) % threads_.size();
      if (threads_[position_].working()) return &threads_[position_];
    }
    return nullptr;
  }

  std::span<PoolThread> threads_;
  Clock::time_point next_look_;
  size_t position_ = 0;
  PoolThread* watched_ = nullptr;
  Clock::time_point since_;
  std::chrono::nanoseconds cpu_time_{0};
};

}  // namespace

// A call publishes its job by writing `ticket`: the upper half is the call's number, the lower half
// the number of tasks not yet taken. The thread that lowers this number owns a task. The caller
// does not return until every taken task is counted in `done`, so the job cannot change while a
// thread owns one of its tasks. A worker that comes late finds zero and never looks at the job; the
// caller does not wait for it. If a worker is taken off its core in the middle of a task, the
// caller lends it its own core (pool_thread.h). Idle workers give theirs, also to the caller.
struct ThreadPool::Impl {
  explicit Impl(int count) : threads(static_cast<size_t>(count)) {
    for (int i = 1; i < count; ++i) {
      workers.emplace_back([this, i] { Work(threads[static_cast<size_t>(i)]); });
    }
  }

  ~Impl() {
    stop.store(true);
    calls.fetch_add(1);
    calls.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void Run(int64_t n, Function f, const void* t, BeforeFunction before_function,
           const void* before) {
    function = f;
    task = t;
    count = n;
    done.store(0, std::memory_order_relaxed);
    const uint32_t call = calls.load(std::memory_order_relaxed) + 1;
    ticket.store(uint64_t{call} << 32 | static_cast<uint64_t>(n), std::memory_order_release);
    calls.store(call);
    if (parked.load() > 0) calls.notify_all();
    threads[0].Bind();
    if (before_function != nullptr) {
      threads[0].Begin();  // others may lend it a core
      before_function(before);
      threads[0].End();
    }
    TakeTasks(threads[0]);
    WaitUntilDone(static_cast<uint32_t>(n));
  }

  // Runs tasks until none is left to take.
  void TakeTasks(PoolThread& self) {
    uint64_t t = ticket.load(std::memory_order_acquire);
    if ((t & kRemainingMask) == 0) return;
    uint32_t finished = 0;
    self.Begin();
    while ((t & kRemainingMask) != 0) {
      if (!ticket.compare_exchange_weak(t, t - 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        continue;
      }
      function(task, count - static_cast<int64_t>(t & kRemainingMask));
      ++finished;
      t = ticket.load(std::memory_order_acquire);
    }
    if (finished > 0) {
      done.fetch_add(finished);
      if (asleep.load()) done.notify_all();
    }
    self.End();
  }

  void WaitUntilDone(uint32_t n) {
    for (int i = 0; i < kPausesBeforeClock; ++i) {
      if (done.load(std::memory_order_acquire) == n) return;
      Pause();
    }
    const auto begin = Clock::now();
    Lookout lookout({threads.data() + 1, threads.size() - 1}, begin);
    bool yield = false;
    while (true) {
      for (int i = 0; i < kPausesPerClockRead; ++i) {
        if (done.load(std::memory_order_acquire) == n) return;
        if (yield) {
          std::this_thread::yield();
          break;
        }
        Pause();
      }
      const auto now = Clock::now();
      yield = now - begin > kSpinBeforeYield;
      PoolThread* off = lookout.Look(now);
      if (off != nullptr && off->LendCore()) SleepUntilMore(n);
    }
  }

  // Sleeps until some thread has finished its tasks.
  void SleepUntilMore(uint32_t n) {
    asleep.store(true);
    const uint32_t seen = done.load();
    if (seen != n) done.wait(seen);
    asleep.store(false, std::memory_order_relaxed);
  }

  void Work(PoolThread& self) {
    TakeLongSlices();
    self.Bind();
    while (!stop.load()) {
      const uint32_t seen = calls.load();
      TakeTasks(self);
      if (!SpinFor(seen)) {
        parked.fetch_add(1);
        calls.wait(seen);
        parked.fetch_sub(1);
      }
    }
  }

  // True when a call came while spinning.
  bool SpinFor(uint32_t seen) {
    auto now = Clock::now();
    auto end = now + kSpinBeforeParking;
    Lookout lookout(threads, now);
    do {
      for (int i = 0; i < kPausesPerClockRead; ++i) {
        if (calls.load(std::memory_order_acquire) != seen) return true;
        Pause();
      }
      now = Clock::now();
      PoolThread* off = lookout.Look(now);
      if (off != nullptr && off->GiveCore()) end = Clock::now() + kSpinBeforeParking;
    } while (now < end);
    return false;
  }

  alignas(64) std::atomic<uint64_t> ticket{0};
  alignas(64) std::atomic<uint32_t> done{0};
  std::atomic<bool> asleep{false};             // the caller sleeps, on `done`
  alignas(64) std::atomic<uint32_t> calls{0};  // what parked workers wait on
  std::atomic<int> parked{0};
  std::atomic<bool> stop{false};
  // The job; written by the caller before it publishes `ticket`.
  Function function = nullptr;
  const void* task = nullptr;
  int64_t count = 0;

  std::vector<PoolThread> threads;  // the caller's is the first
  std::vector<std::thread> workers;
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>(threads)) {}
ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::Run(int64_t n, Function function, const void* task, BeforeFunction before_function,
                     const void* before) {
  if (n <= 1 || impl_->workers.empty()) {
    if (before_function != nullptr) before_function(before);
    for (int64_t i = 0; i < n; ++i) function(task, i);
    return;
  }
  impl_->Run(n, function, task, before_function, before);
}

}  // namespace tvq
