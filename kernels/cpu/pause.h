// What a thread does between two looks at what it waits for.
#ifndef TVQ_KERNELS_CPU_PAUSE_H_
#define TVQ_KERNELS_CPU_PAUSE_H_

#include <atomic>
#include <thread>

namespace tvq {

// Leaves the core's other thread, if there is one, its share.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns when ready() is true, which another thread sees to within a few microseconds. That
// thread may have been taken off its core: after some microseconds others get this one.
template <typename Ready>
void WaitUntil(const Ready& ready) {
  constexpr int kPausesBeforeYield = 1000;
  for (int i = 0; !ready(); ++i) {
    if (i < kPausesBeforeYield) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

// Opened once, by one thread, for others that wait for it.
class Gate {
 public:
  bool open() const { return open_.load(std::memory_order_acquire); }
  void Open() { open_.store(true, std::memory_order_release); }

  // What was written before Open may be read after it.
  void Wait() const {
    WaitUntil([&] { return open(); });
  }

 private:
  std::atomic<bool> open_{false};
};

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_PAUSE_H_
