#include "server/rpc/wakeful_pollers.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace tvq {
namespace {

std::string FirstWord(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// The files that tell in which system call each of gRPC's threads for callbacks is.
std::vector<std::filesystem::path> Pollers() {
  std::vector<std::filesystem::path> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (FirstWord(task.path() / "comm") == "nexting_thread")
      found.push_back(task.path() / "syscall");
  }
  return found;
}

bool AllSleep(const std::vector<std::filesystem::path>& pollers) {
  for (const auto& poller : pollers) {
    if (FirstWord(poller) != std::to_string(SYS_clock_nanosleep)) return false;
  }
  return true;
}

// Without the calls all sleep from second 1.0 to 1.1, 2.1 to 2.2, ...
TEST(WakefulPollersTest, OneOfThemIsAlwaysAwake) {
  if (FirstWord("/proc/self/syscall").empty()) GTEST_SKIP() << "the kernel does not tell";
  const WakefulPollers wakeful;
  while (Pollers().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::vector<std::filesystem::path> pollers = Pollers();
  int asleep = 0;
  for (int i = 0; i < 250; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (AllSleep(pollers)) ++asleep;
  }
  EXPECT_EQ(asleep, 0);
}

}  // namespace
}  // namespace tvq
