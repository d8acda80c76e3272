#include "tests/bench/thread_times.h"

#include <filesystem>
#include <fstream>

namespace tvq::bench {
namespace {

// Of Linux, a folder for each.
std::set<std::string> Threads() {
  std::set<std::string> threads;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    threads.insert(thread.path().string());
  }
  return threads;
}

}  // namespace

ThreadTimes::ThreadTimes() : others_(Threads()) {}

double ThreadTimes::ProcessorMs() const {
  double ns = 0;
  for (const std::string& thread : Threads()) {
    if (others_.contains(thread)) continue;
    double on_processor = 0;  // the first figure
    if (std::ifstream(thread + "/schedstat") >> on_processor) ns += on_processor;
  }
  return ns / 1e6;
}

}  // namespace tvq::bench
