#include "base/thread_times.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"

namespace tvq {
namespace {

// As pthread_getcpuclockid makes it, which asks for a handle instead of an id.
clockid_t ClockOf(int thread) {
  constexpr unsigned kOfAThread = 4;
  constexpr unsigned kAsScheduled = 2;
  return static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | kOfAThread | kAsScheduled);
}

}  // namespace

ThreadTimes ReadThreadTimes() {
  ThreadTimes times;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/self/task", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    int thread = 0;
    timespec time{};
    if (absl::SimpleAtoi(entry->path().filename().string(), &thread) &&
        clock_gettime(ClockOf(thread), &time) == 0) {
      times[thread] = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
    }
  }
  return error ? ThreadTimes() : times;
}

std::chrono::nanoseconds MostBetween(const ThreadTimes& then, const ThreadTimes& now) {
  std::chrono::nanoseconds most{0};
  for (const auto& [thread, time] : now) {
    const auto before = then.find(thread);
    most = std::max(most, before == then.end() ? time : time - before->second);
  }
  return most;
}

}  // namespace tvq
