// The speed at which a device moves bytes: what decode is measured against.
#ifndef TVQ_TESTS_BENCH_CEILING_H_
#define TVQ_TESTS_BENCH_CEILING_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace tvq::bench {

// GB/s (1e9 bytes). Bandwidth drifts with what else the machine does, so it is measured right
// before and right after whatever is compared with it.
class Ceiling {
 public:
  virtual ~Ceiling() = default;
  // Everything the device has: on the CPU its threads read, each other device copies within its
  // memory, bytes read and written counted.
  virtual absl::StatusOr<double> Measure() = 0;
  // One thread of the CPU reads; 0 on other devices.
  virtual absl::StatusOr<double> MeasureOneThread() = 0;
  // Seconds that all threads of the CPU take to read `bytes`, as many as a step reads: how much of
  // the spread of a step's time is the machine's. 0 on other devices.
  virtual double ReadOnce(int64_t bytes) {
    static_cast<void>(bytes);
    return 0;
  }
  // Gives a device that works behind the host's back work that lasts longer than the host takes to
  // launch a step, about 10 ms: whatever is launched then begins when what is before it ends.
  virtual absl::Status Occupy() { return absl::OkStatus(); }
};

// On `bytes` of memory, which are more than any cache holds. The device outlives it.
absl::StatusOr<std::unique_ptr<Ceiling>> MakeCeiling(Device& device, size_t bytes);

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_CEILING_H_
