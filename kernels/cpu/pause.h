// How a thread waits for another one for a short time.
#ifndef TVQ_KERNELS_CPU_PAUSE_H_
#define TVQ_KERNELS_CPU_PAUSE_H_

#include <atomic>
#include <thread>

namespace tvq {

// Leaves more of the core to its other hardware thread, if there is one.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns when ready() is true. Another thread makes it true within a few microseconds, unless that
// thread was taken off its core. So after some microseconds this thread lets other threads run on
// the core that it has itself.
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

// A gate that one thread opens, once, for other threads that wait.
class Gate {
 public:
  bool open() const { return open_.load(std::memory_order_acquire); }
  void Open() { open_.store(true, std::memory_order_release); }

  // Returns when the gate is open. What was written before Open may be read then.
  void Wait() const {
    WaitUntil([&] { return open(); });
  }

 private:
  std::atomic<bool> open_{false};
};

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_PAUSE_H_
