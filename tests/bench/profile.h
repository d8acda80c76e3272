// Time per op: a CPU device whose table of functions counts what the CPU backend's functions take.
#ifndef TVQ_TESTS_BENCH_PROFILE_H_
#define TVQ_TESTS_BENCH_PROFILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device.h"

namespace tvq::bench {

struct OpTime {
  std::string op;
  int64_t calls = 0;
  double seconds = 0;
};

absl::StatusOr<std::unique_ptr<Device>> MakeProfilingDevice(int threads, std::string_view isa);

// What profiling devices spent since the last call of this function, ops in the backend's order;
// ops that were not called are left out. For the thread that issues the ops.
std::vector<OpTime> TakeOpTimes();

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_PROFILE_H_
