// Threads that share the tasks of one op.
#ifndef TVQ_KERNELS_CPU_THREAD_POOL_H_
#define TVQ_KERNELS_CPU_THREAD_POOL_H_

#include <cstdint>
#include <memory>

namespace tvq {

// Runs tasks 0..n-1 on `threads` threads, the caller being one of them. Tasks are handed out
// dynamically, so that a thread on a busy core takes fewer; which thread runs a task must not
// matter to its result. Workers spin briefly between calls, then park. One caller at a time.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls task(i) for every i in [0, n); returns when all are done. `task` must not throw.
  template <typename Task>
  void ParallelFor(int64_t n, const Task& task) {
    Run(
        n, [](const void* t, int64_t i) { (*static_cast<const Task*>(t))(i); }, &task, nullptr,
        nullptr);
  }

  // The caller first calls before(), while the workers begin with the tasks.
  template <typename Before, typename Task>
  void ParallelFor(int64_t n, const Before& before, const Task& task) {
    Run(
        n, [](const void* t, int64_t i) { (*static_cast<const Task*>(t))(i); }, &task,
        [](const void* b) { (*static_cast<const Before*>(b))(); }, &before);
  }

 private:
  using Function = void (*)(const void* task, int64_t index);
  using BeforeFunction = void (*)(const void* before);
  void Run(int64_t n, Function function, const void* task, BeforeFunction before_function,
           const void* before);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_THREAD_POOL_H_
