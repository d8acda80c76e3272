#include "tests/bench/ceiling.h"

#include <utility>

#include "kernels/cpu/cpu_device.h"
#include "tests/bench/read_ceiling.h"
#include "tests/bench/statistics.h"

namespace tvq::bench {
namespace {

// With the pool that the model runs on, both have the same threads on the same cores.
class ThreadsRead : public Ceiling {
 public:
  ThreadsRead(CpuDevice& cpu, size_t bytes) : cpu_(cpu), read_(bytes) {}
  absl::StatusOr<double> Measure() override { return read_.Measure(cpu_.pool()); }
  absl::StatusOr<double> MeasureOneThread() override {
    ThreadPool one_thread(1);
    return read_.Measure(one_thread);
  }
  double ReadOnce(int64_t bytes) override { return read_.ReadOn(cpu_.pool(), bytes); }

 private:
  CpuDevice& cpu_;
  ReadCeiling read_;
};

class DeviceCopies : public Ceiling {
 public:
  DeviceCopies(Device& device, Buffer from, Buffer to)
      : device_(device), from_(std::move(from)), to_(std::move(to)) {}
  absl::StatusOr<double> Measure() override {
    if (absl::Status status = CopyAndWait(1); !status.ok()) return status;
    const Stopwatch watch;
    if (absl::Status status = CopyAndWait(kCopies); !status.ok()) return status;
    return 2.0 * kCopies * static_cast<double>(from_.bytes()) / watch.Seconds() / 1e9;
  }
  absl::StatusOr<double> MeasureOneThread() override { return 0.0; }
  absl::Status Occupy() override { return Copy(kCopies); }

 private:
  // Of a gibibyte, read and written at 4e12 bytes a second: half a millisecond each.
  static constexpr int kCopies = 20;

  absl::Status Copy(int times) {
    absl::Status status;
    for (int i = 0; i < times && status.ok(); ++i) {
      status = device_.CopyWithin(to_.data(), from_.data(), from_.bytes());
    }
    return status;
  }
  absl::Status CopyAndWait(int times) {
    const absl::Status status = Copy(times);
    return status.ok() ? device_.Synchronize() : status;
  }

  Device& device_;
  Buffer from_, to_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Ceiling>> MakeCeiling(Device& device, size_t bytes) {
  if (device.host_memory()) return std::make_unique<ThreadsRead>(AsCpu(device), bytes);
  absl::StatusOr<Buffer> from = device.Allocate(bytes);
  if (!from.ok()) return from.status();
  absl::StatusOr<Buffer> to = device.Allocate(bytes);
  if (!to.ok()) return to.status();
  return std::make_unique<DeviceCopies>(device, *std::move(from), *std::move(to));
}

}  // namespace tvq::bench
