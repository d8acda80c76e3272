// Time per op: a table of functions that notes when each of the device's own begins and ends.
#ifndef TVQ_TESTS_BENCH_PROFILE_H_
#define TVQ_TESTS_BENCH_PROFILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace tvq::bench {

struct OpTime {
  std::string op;
  int64_t calls = 0;
  double seconds = 0;
};

// From now on; told twice, as told once. For one device of the process, whose steps are not
// recorded.
void TimeEveryOp(Device& device);

// What ops took since the last call of this function, in the backend's order; ops that were not
// called are left out. For the thread that issues the ops.
absl::StatusOr<std::vector<OpTime>> TakeOpTimes();

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_PROFILE_H_
