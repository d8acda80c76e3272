#include "tests/kernels/cuda/stand_in/cuda_runtime.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "tests/kernels/cuda/stand_in/async_copies.h"
#include "tests/kernels/cuda/stand_in/overlap.h"

#if defined(TVQ_ADDRESS_SANITIZER)
#include <sanitizer/common_interface_defs.h>
#endif

namespace tvq::cuda_stand_in {
namespace {

// The sanitizer must know on which stack it is; without one these are nothing.
#if defined(TVQ_ADDRESS_SANITIZER)
__attribute__((no_sanitize_address)) void StartSwitch(void** save, const void* stack,
                                                      size_t bytes) {
  __sanitizer_start_switch_fiber(save, stack, bytes);
}
__attribute__((no_sanitize_address)) void FinishSwitch(void* save, const void** stack,
                                                       size_t* bytes) {
  __sanitizer_finish_switch_fiber(save, stack, bytes);
}
#else
void StartSwitch(void**, const void*, size_t) {}
void FinishSwitch(void*, const void**, size_t*) {}
#endif

constexpr size_t kStackBytes = size_t{128} << 10;
// Stacks that begin at the same place of a page would share the same few sets of a cache: each
// begins an odd number of lines below the one before.
constexpr size_t kStackStep = size_t{9} * 64, kStackSteps = 64;

// Where a stack is left and entered again. The compiler's own jump, which is two loads and a
// branch: the library's calls the sanitizer, which unpoisons the stacks, each time.
struct Place {
  void* words[5];
};

// Of functions that return on another stack than they were called on: the caller must not rely on
// what the compiler sees them do to registers.
#if defined(__clang__)
#define TVQ_SWITCHES __attribute__((no_sanitize_address, noinline))
#else
#define TVQ_SWITCHES __attribute__((no_sanitize_address, noipa))
#endif

constexpr int kMostThreads = 1024;                // of a block
constexpr size_t kMostShared = size_t{99} << 10;  // bytes of a block

enum class Wait : uint8_t { kNothing, kBlock, kWarp, kGrid, kEnded };

// What becomes of a block's threads at their wait for the kernel before.
struct AtWait {
  bool demanded = false;         // a thread that ends without it is a mistake
  bool ends = false;             // there they end
  std::function<void()> passes;  // unless empty: called when all are there
};

// Thrown where a thread's early part is all that is wanted of it.
struct EarlyPartEnds {};

// A context makes the stack; from then on the fiber is left and entered by jumps, which, unlike
// swapcontext, are no system calls. It lives on from thread to thread.
struct Fiber {
  explicit Fiber(size_t number) : stack_bytes(kStackBytes - number % kStackSteps * kStackStep) {}

  Place place{};
  Wait wait = Wait::kNothing;
  uint32_t mask = 0;    // of a warp's barrier
  bool waited = false;  // for the kernel before
  bool started = false;
  void* sanitizer_stack = nullptr;
  ThreadPosition position;
  AsyncCopies copies;
  const size_t stack_bytes;
  const std::unique_ptr<std::byte[]> stack =
      std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
  std::byte* const stack_begin = stack.get();  // inlined where it is switched to
  ucontext_t context{};
};

struct Warp {
  Exchange exchange[2];
};

// Heap memory of exactly so many bytes, all NaN whatever it is read as.
class SharedMemory {
 public:
  void* Take(size_t bytes) {
    if (bytes != bytes_) memory_.reset(static_cast<std::byte*>(std::malloc(bytes)));
    bytes_ = bytes;
    taken_ = true;
    return std::memset(memory_.get(), 0xff, bytes);
  }
  // The block has ended; the next often takes as much.
  void Leave() { taken_ = false; }
  bool taken() const { return taken_; }
  void* data() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_{static_cast<std::byte*>(std::malloc(0))};
  size_t bytes_ = 0;
  bool taken_ = false;
};

ThreadOrder g_order;

// Numbers from 0 on, in the order of a turn.
void PutInOrder(std::span<int> order, uint32_t salt) {
  std::iota(order.begin(), order.end(), 0);
  if (g_order.kind == ThreadOrder::kBackwards) std::reverse(order.begin(), order.end());
  if (g_order.kind != ThreadOrder::kShuffled) return;
  // A generator that costs nothing to make, for there is one for every turn of a warp (Knuth's
  // factors); of its upper bits, which are the better ones, a place.
  uint32_t random = (g_order.seed + salt) * 2654435761U;
  for (size_t left = order.size(); left > 1; --left) {
    random = random * 1664525U + 1013904223U;
    std::swap(order[left - 1], order[uint64_t{random} * left >> 32]);
  }
}

// Runs one block at a time; fibers and their stacks are kept from block to block. A warp goes on,
// all its lanes from one of its barriers to the next, until it has ended or waits for the others:
// so a barrier of the block that is missing shows though all warps pass the same ones of their own.
class Scheduler {
 public:
  static Scheduler& Current() {
    static thread_local Scheduler scheduler;
    return scheduler;
  }

  void RunBlock(const char* kernel, dim3 block, dim3 index, dim3 grid, size_t shared_bytes,
                const std::function<void()>& thread, const AtWait& at_wait) {
    kernel_ = kernel;
    thread_ = &thread;
    at_wait_ = &at_wait;
    CheckShared(shared_bytes);
    dynamic_shared_.Take(shared_bytes);
    static_shared_.Leave();
    count_ = static_cast<int>(block.x * block.y * block.z);
    Prepare(block, index, grid);
    turn_ = 0;
    std::array<int, kMostThreads / kWarpSize> order;
    const std::span<int> warps(order.data(), warps_.size());
    do {
      PutInOrder(warps, turn_++);
      for (const int warp : warps) RunWarp(warp);
    } while (Release());
    running_ = nullptr;
    g_position = nullptr;
  }

  void* dynamic_shared() const { return dynamic_shared_.data(); }
  void* StaticShared(size_t bytes) {
    if (!static_shared_.taken()) {
      CheckShared(dynamic_shared_.bytes() + bytes);
      return static_shared_.Take(bytes);
    }
    if (static_shared_.bytes() != bytes) Fail(kernel_, "more than one static shared memory");
    return static_shared_.data();
  }

  void WaitForGrid() {
    if (at_wait_->ends) throw EarlyPartEnds();
    running_->waited = true;
    if (at_wait_->passes) Yield(Wait::kGrid);
  }

  void StartCopy(void* to, const void* from, size_t bytes) {
    if (!running_->copies.Start(to, from, bytes)) {
      Fail(kernel_, "a thread with more copies on their way than the stand-in remembers");
    }
  }
  AsyncCopies& copies() { return running_->copies; }

  // To the next of the warp's turn, or to what comes behind that.
  TVQ_SWITCHES void Yield(Wait wait, uint32_t mask = 0) {
    running_->wait = wait;
    running_->mask = mask;
    if (__builtin_setjmp(running_->place.words) == 0) {
      void** save = &running_->sanitizer_stack;
      if (next_ < queued_ && queue_[next_]->started) {
        running_ = queue_[next_++];
        g_position = &running_->position;
        StartSwitch(save, running_->stack_begin, running_->stack_bytes);
        Jump(running_->place);
      }
      StartSwitch(save, main_stack_, main_stack_bytes_);
      Jump(main_place_);
    }
    FinishSwitch(running_->sanitizer_stack, nullptr, nullptr);
  }

 private:
  void CheckShared(size_t bytes) const {
    if (bytes > kMostShared) Fail(kernel_, "more than 99 KiB of shared memory for a block");
  }

  static void Enter() {
    Scheduler& scheduler = Current();
    FinishSwitch(nullptr, &scheduler.main_stack_, &scheduler.main_stack_bytes_);
    while (true) {
      scheduler.RunThread();
      scheduler.Yield(Wait::kEnded);
    }
  }

  void RunThread() {
    try {
      (*thread_)();
    } catch (const EarlyPartEnds&) {
      running_->waited = true;
    }
    if (at_wait_->demanded && !running_->waited) {
      Fail(kernel_, "a thread that ends without having waited for the kernel before");
    }
  }

  void Prepare(dim3 block, dim3 index, dim3 grid) {
    while (fibers_.size() < static_cast<size_t>(count_))
      fibers_.push_back(std::make_unique<Fiber>(fibers_.size()));
    warps_.resize(static_cast<size_t>((count_ + kWarpSize - 1) / kWarpSize));
    for (int i = 0; i < count_; ++i) {
      Fiber& fiber = FiberAt(i);
      const auto u = static_cast<unsigned>(i);
      const dim3 thread{u % block.x, u / block.x % block.y, u / (block.x * block.y)};
      fiber.position = {
          .thread = thread,
          .block = index,
          .block_size = block,
          .grid_size = grid,
          .lane = i % kWarpSize,
          .exchanges = warps_[static_cast<size_t>(i / kWarpSize)].exchange,
      };
      fiber.wait = Wait::kNothing;
      fiber.waited = false;
      fiber.copies.Reset();
    }
  }

  void RunWarp(int warp) {
    const int first = warp * kWarpSize;
    std::array<int, kWarpSize> order;
    const std::span<int> lanes(order.data(), static_cast<size_t>(Lanes(first)));
    do {
      PutInOrder(lanes, turn_++);
      next_ = queued_ = 0;
      for (const int lane : lanes) {
        Fiber& fiber = FiberAt(first + lane);
        if (fiber.wait == Wait::kNothing) queue_[queued_++] = &fiber;
      }
      while (next_ < queued_) Resume(*queue_[next_++]);
    } while (ReleaseWarp(first));
  }

  TVQ_SWITCHES void Resume(Fiber& fiber) {
    running_ = &fiber;
    g_position = &fiber.position;
    if (__builtin_setjmp(main_place_.words) == 0) {
      StartSwitch(&main_sanitizer_stack_, fiber.stack_begin, fiber.stack_bytes);
      if (running_->started) Jump(running_->place);
      Start(*running_);
    }
    FinishSwitch(main_sanitizer_stack_, nullptr, nullptr);
  }

  [[noreturn]] TVQ_SWITCHES static void Jump(Place& place) { __builtin_longjmp(place.words, 1); }

  [[noreturn]] static void Start(Fiber& fiber) {
    fiber.started = true;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = fiber.stack_bytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, Enter, 0);
    setcontext(&fiber.context);
    std::abort();
  }

  // Lets the block go on that has come to a barrier of its own. False when it has ended.
  bool Release() {
    int ended = 0, at_barrier = 0, at_grid = 0;
    for (int i = 0; i < count_; ++i) {
      const Fiber& fiber = FiberAt(i);
      ended += fiber.wait == Wait::kEnded;
      at_barrier += fiber.wait == Wait::kBlock;
      at_grid += fiber.wait == Wait::kGrid;
    }
    if (ended == count_) return false;
    if (at_barrier != count_ && at_grid != count_) {
      Fail(kernel_, "a barrier or warp function that not all of its threads reach");
    }
    if (at_grid == count_) at_wait_->passes();
    for (int i = 0; i < count_; ++i) FiberAt(i).wait = Wait::kNothing;
    return true;
  }

  Fiber& FiberAt(int i) { return *fibers_[static_cast<size_t>(i)]; }

  // Of the warp that begins with thread `first`.
  int Lanes(int first) const { return std::min(kWarpSize, count_ - first); }

  // Lets those lanes go on whose barrier is complete; whether there are any.
  bool ReleaseWarp(int first) {
    const int lanes = Lanes(first);
    uint32_t waiting = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      if (FiberAt(first + lane).wait == Wait::kWarp) waiting |= 1U << lane;
    }
    // Lanes that do not exist cannot be waited for: CUDA leaves that open, we forbid it.
    bool released = false;
    for (int lane = 0; lane < lanes; ++lane) {
      Fiber& fiber = FiberAt(first + lane);
      if (fiber.wait != Wait::kWarp || (fiber.mask & ~waiting) != 0) continue;
      fiber.wait = Wait::kNothing;
      released = true;
    }
    return released;
  }

  const char* kernel_ = "";
  const std::function<void()>* thread_ = nullptr;
  const AtWait* at_wait_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Warp> warps_;
  SharedMemory dynamic_shared_, static_shared_;
  int count_ = 0;
  uint32_t turn_ = 0;  // of the block's and its warps'
  // Of the running warp's turn: those that may run, and the next of them.
  Fiber* queue_[kWarpSize];
  int queued_ = 0, next_ = 0;
  Fiber* running_ = nullptr;
  Place main_place_{};
  void* main_sanitizer_stack_ = nullptr;
  const void* main_stack_ = nullptr;
  size_t main_stack_bytes_ = 0;
};

}  // namespace

void SetThreadOrder(ThreadOrder order) { g_order = order; }

void Fail(const char* kernel, const char* what) {
  std::fprintf(stderr, "cuda_stand_in: kernel %s: %s\n", kernel, what);
  std::abort();
}

void RunGrid(const char* kernel, dim3 grid, dim3 block, size_t shared_bytes,
             const std::function<void()>& thread, bool overlaps) {
  const unsigned threads = block.x * block.y * block.z;
  if (threads == 0 || threads > unsigned{kMostThreads})
    Fail(kernel, "a block has 1 to 1024 threads");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535) {
    Fail(kernel, "a grid that CUDA does not launch");
  }
  const DeviceMemoryAccess access;
  std::vector<int> blocks(size_t{grid.x} * grid.y * grid.z);
  PutInOrder(blocks, 0);
  const auto run = [&](const AtWait& at_wait, const auto& before_block) {
    for (const int i : blocks) {
      const auto u = static_cast<unsigned>(i);
      const dim3 index{u % grid.x, u / grid.x % grid.y, u / (grid.x * grid.y)};
      before_block();
      Scheduler::Current().RunBlock(kernel, block, index, grid, shared_bytes, thread, at_wait);
    }
  };
  const auto nothing = [] {};
  if (!OverlapCheck()) return run({.demanded = overlaps}, nothing);
  OverlapWatch watch;
  if (overlaps) {
    watch.Hide();
    run({.demanded = true, .ends = true}, nothing);
    if (!watch.ShowUnchanged()) Fail(kernel, "writes before it waits for the kernel before");
    run({.demanded = true, .passes = [&] { watch.Show(); }}, [&] { watch.Hide(); });
  } else {
    run({}, nothing);
  }
  watch.NoteWritten();
}

void WaitForGrid() { Scheduler::Current().WaitForGrid(); }

void* DynamicSharedMemory() { return Scheduler::Current().dynamic_shared(); }
void* StaticSharedMemory(size_t bytes) { return Scheduler::Current().StaticShared(bytes); }
void StartAsyncCopy(void* to, const void* from, size_t bytes) {
  Scheduler::Current().StartCopy(to, from, bytes);
}
void CloseAsyncCopies() { Scheduler::Current().copies().Close(); }
void WaitForAsyncCopies(int later) { Scheduler::Current().copies().Wait(later); }
void BlockBarrier() { Scheduler::Current().Yield(Wait::kBlock); }
void WarpBarrier(uint32_t mask) { Scheduler::Current().Yield(Wait::kWarp, mask); }

}  // namespace tvq::cuda_stand_in
