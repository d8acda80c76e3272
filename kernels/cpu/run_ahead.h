// Tasks of one op that read memory. Each thread knows which task it runs next, and so what to
// prefetch.
#ifndef TVQ_KERNELS_CPU_RUN_AHEAD_H_
#define TVQ_KERNELS_CPU_RUN_AHEAD_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pause.h"

namespace tvq {

// Hands out tasks [0, count) in ranges that shrink towards the end. Long ranges come first, since
// memory is read faster where a thread reads a long stretch (two threads that take turns at 24 KB
// read a sixth less). Short ones come last, so that all threads end together, and one on a busy
// core takes fewer tasks (guided self-scheduling, Polychronopoulos and Kuck 1987).
class GuidedRanges {
 public:
  struct Range {
    int64_t begin, end;  // equal when all tasks are taken
  };

  // No range is longer than `most`, since a thread that is taken off its core keeps its range.
  GuidedRanges(int64_t count, int threads, int64_t most = INT64_MAX)
      : count_(count), shares_(2 * threads), most_(most) {}

  Range Take() {
    int64_t begin = taken_.load(std::memory_order_relaxed);
    int64_t end;
    do {
      const int64_t left = count_ - begin;
      end = begin + std::min(most_, std::max(left / shares_, std::min<int64_t>(left, 1)));
    } while (!taken_.compare_exchange_weak(begin, end, std::memory_order_relaxed));
    return {begin, end};
  }

 private:
  const int64_t count_;
  const int64_t shares_;
  const int64_t most_;
  std::atomic<int64_t> taken_{0};
};

// Like RunTasks, but calls task(i, next, thread). The same thread, one of the pool's counted from
// 0, runs task `next` after task i, so task i may prefetch what `next` will read; `next` is `tasks`
// when there is none. Before any task the caller calls prepare(), which takes microseconds;
// meanwhile each other thread calls fetch(i) for its first task, so that memory is not idle. No
// thread takes more than `most` tasks at a time.
template <typename Prepare, typename Fetch, typename Task>
void RunPrepared(CpuDevice& cpu, int64_t tasks, int64_t work, const Prepare& prepare,
                 const Fetch& fetch, const Task& task, int64_t most = INT64_MAX) {
  const int64_t threads = work < kSharedWork ? 1 : std::min<int64_t>(cpu.pool().threads(), tasks);
  GuidedRanges ranges(tasks, static_cast<int>(threads), most);
  Gate prepared;
  const auto prepare_all = [&] {
    prepare();
    prepared.Open();
  };
  cpu.pool().ParallelFor(threads, prepare_all, [&](int64_t thread) {
    auto range = ranges.Take();
    if (!prepared.open() && range.begin < range.end) fetch(range.begin);
    prepared.Wait();
    while (range.begin < range.end) {
      for (int64_t i = range.begin; i + 1 < range.end; ++i) task(i, i + 1, thread);
      // The next range is not taken sooner: a thread that is done may take it first.
      const auto next = ranges.Take();
      task(range.end - 1, next.begin, thread);
      range = next;
    }
  });
}

// Like RunPrepared, where there is nothing to prepare: calls task(i, next).
template <typename Task>
void RunAhead(CpuDevice& cpu, int64_t tasks, int64_t work, const Task& task) {
  RunPrepared(
      cpu, tasks, work, [] {}, [](int64_t) {},
      [&](int64_t i, int64_t next, int64_t) { task(i, next); });
}

// The most bytes that fetch(i) prefetches: as many as come from memory while a caller prepares.
inline constexpr int64_t kFetchBytes = 128 << 10;

inline void FetchBytes(const void* from, int64_t bytes) {
  constexpr int64_t kLine = 64;
  const auto* data = static_cast<const char*>(from);
  for (int64_t at = 0; at < std::min(bytes, kFetchBytes); at += kLine) {
    __builtin_prefetch(data + at, 0, 2);
  }
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_RUN_AHEAD_H_
