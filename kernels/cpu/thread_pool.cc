#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace tvq {
namespace {

// How long a worker stays awake after its last task: longer than the gaps between the ops of one
// decode step, shorter than anyone would notice on an idle server.
constexpr std::chrono::microseconds kSpinBeforeParking{50};
constexpr int kPausesPerClockRead = 32;
// A caller that waited this long gives its core away: a worker was taken off its own.
constexpr int kPausesBeforeYield = 4096;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr uint64_t kRemainingMask = 0xffffffffU;

}  // namespace

// A call publishes its job by writing `ticket`: the call's number above, the tasks not yet taken
// below. Whoever lowers the count owns a task, and until every taken task is counted in `done` the
// caller does not return, so the job cannot change under its owner. A worker that comes late finds
// zero and never looks at the job; the caller does not wait for it.
struct ThreadPool::Impl {
  explicit Impl(int threads) {
    for (int i = 1; i < threads; ++i) workers.emplace_back([this] { Work(); });
  }

  ~Impl() {
    stop.store(true);
    calls.fetch_add(1);
    calls.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void Run(int64_t n, Function f, const void* t) {
    function = f;
    task = t;
    count = n;
    done.store(0, std::memory_order_relaxed);
    const uint32_t call = calls.load(std::memory_order_relaxed) + 1;
    ticket.store(uint64_t{call} << 32 | static_cast<uint64_t>(n), std::memory_order_release);
    calls.store(call);
    if (parked.load() > 0) calls.notify_all();
    TakeTasks();
    for (int pauses = 0; done.load(std::memory_order_acquire) != n; ++pauses) {
      if (pauses < kPausesBeforeYield) {
        Pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

  // Runs tasks until none is left to take.
  void TakeTasks() {
    int64_t finished = 0;
    uint64_t t = ticket.load(std::memory_order_acquire);
    while ((t & kRemainingMask) != 0) {
      if (!ticket.compare_exchange_weak(t, t - 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        continue;
      }
      function(task, count - static_cast<int64_t>(t & kRemainingMask));
      ++finished;
      t = ticket.load(std::memory_order_acquire);
    }
    if (finished > 0) done.fetch_add(finished, std::memory_order_release);
  }

  void Work() {
    while (!stop.load()) {
      const uint32_t seen = calls.load();
      TakeTasks();
      if (!SpinFor(seen)) {
        parked.fetch_add(1);
        calls.wait(seen);
        parked.fetch_sub(1);
      }
    }
  }

  // True when a call came while spinning.
  bool SpinFor(uint32_t seen) const {
    const auto end = std::chrono::steady_clock::now() + kSpinBeforeParking;
    do {
      for (int i = 0; i < kPausesPerClockRead; ++i) {
        if (calls.load(std::memory_order_acquire) != seen) return true;
        Pause();
      }
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  alignas(64) std::atomic<uint64_t> ticket{0};
  alignas(64) std::atomic<int64_t> done{0};
  alignas(64) std::atomic<uint32_t> calls{0};  // what parked workers wait on
  std::atomic<int> parked{0};
  std::atomic<bool> stop{false};
  // The job; written by the caller before it publishes `ticket`.
  Function function = nullptr;
  const void* task = nullptr;
  int64_t count = 0;

  std::vector<std::thread> workers;
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>(threads)) {}
ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::Run(int64_t n, Function function, const void* task) {
  if (n <= 1 || impl_->workers.empty()) {
    for (int64_t i = 0; i < n; ++i) function(task, i);
    return;
  }
  impl_->Run(n, function, task);
}

}  // namespace tvq
