// Preloaded into a server, sets its wall clock: CLOCK_REALTIME is off by the nanoseconds (int64)
// that the file $TVQ_TEST_CLOCK holds, and jumps when the file is written.
//
// Waits until a point of wall time follow the clock as the kernel's do: one that goes forward past
// the point ends them, one that goes back prolongs them. To see a jump such a wait ends every
// kSlice as if it had been woken for nothing, which its callers have to allow for anyway.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int64_t kNanos = 1'000'000'000;
constexpr int64_t kSlice = 50'000'000;

const std::atomic<int64_t>* MapOffset() {
  const char* path = std::getenv("TVQ_TEST_CLOCK");
  const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  void* mapped =
      file < 0 ? MAP_FAILED : mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) {
    std::fputs("TVQ_TEST_CLOCK: names no file with the clock's offset\n", stderr);
    std::abort();
  }
  close(file);
  return static_cast<const std::atomic<int64_t>*>(mapped);
}

int64_t Offset() {
  static const std::atomic<int64_t>* const offset = MapOffset();
  return offset->load();
}

template <typename Function>
Function* Next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int64_t ToNanos(const timespec& time) { return time.tv_sec * kNanos + time.tv_nsec; }

timespec ToTimespec(int64_t nanos) { return {.tv_sec = nanos / kNanos, .tv_nsec = nanos % kNanos}; }

int64_t TrueNow() {
  timespec now;
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  return ToNanos(now);
}

// A wait until `until` of the set clock: until when of the true clock to wait now, and whether that
// is all of it.
struct Slice {
  explicit Slice(const timespec& until) {
    const int64_t now = TrueNow();
    const int64_t end = ToNanos(until) - Offset();
    last = end <= now + kSlice;
    wait_until = ToTimespec(std::min(end, now + kSlice));
  }
  timespec wait_until;
  bool last;
};

// Of a condition variable whose clock is not the wall clock: those of this century are after 2001.
bool IsWallTime(const timespec& time) { return time.tv_sec > kNanos; }

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (syscall(SYS_clock_gettime, clock, time) != 0) return -1;
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
    *time = ToTimespec(ToNanos(*time) + Offset());
  }
  return 0;
}

int gettimeofday(timeval* time, void*) noexcept {
  const timespec now = ToTimespec(TrueNow() + Offset());
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* seconds) noexcept {
  const time_t now = (TrueNow() + Offset()) / kNanos;
  if (seconds != nullptr) *seconds = now;
  return now;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  static auto* const next = Next(pthread_cond_timedwait, "pthread_cond_timedwait");
  if (!IsWallTime(*until)) return next(condition, mutex, until);
  const Slice slice(*until);
  const int result = next(condition, mutex, &slice.wait_until);
  return result == ETIMEDOUT && !slice.last ? 0 : result;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  static auto* const next = Next(pthread_cond_clockwait, "pthread_cond_clockwait");
  if (clock != CLOCK_REALTIME) return next(condition, mutex, clock, until);
  const Slice slice(*until);
  const int result = next(condition, mutex, clock, &slice.wait_until);
  return result == ETIMEDOUT && !slice.last ? 0 : result;
}

// Abseil waits so.
long syscall(long number, ...) noexcept {
  static auto* const next = Next(syscall, "syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  constexpr long kUntilWallTime = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
  const auto* until = reinterpret_cast<const timespec*>(a[3]);
  if (number != SYS_futex || (a[1] & kUntilWallTime) != kUntilWallTime || until == nullptr) {
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  const Slice slice(*until);
  const long result = next(number, a[0], a[1], a[2], &slice.wait_until, a[4], a[5]);
  if (result != 0 && errno == ETIMEDOUT && !slice.last) errno = EINTR;
  return result;
}

}  // extern "C"
