#include "tests/bench/matrix_ceiling.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/bench/statistics.h"

namespace tvq::bench {

absl::StatusOr<MatrixCeiling> MatrixCeiling::Create(Device& device, DType dtype, int64_t size) {
  MatrixCeiling ceiling(device);
  ceiling.size_ = size > 0 ? size : device.host_memory() ? kCpuSize : kGpuSize;
  const int64_t n = ceiling.size_;
  // Not zeros: matrix units draw less power, and clock higher, where factors do not change.
  std::minstd_rand random(1);
  std::vector<float> values(static_cast<size_t>(n * n));
  for (float& value : values) value = static_cast<float>(random()) / 0x1p31F - 0.5F;
  const HostMatrix matrix{.data = values.data(), .out = n, .in = n};
  absl::StatusOr<LinearWeight> weight = PackLinear(device, {&matrix, 1}, dtype);
  if (!weight.ok()) return weight.status();
  ceiling.weight_ = *std::move(weight);
  for (Buffer* buffer : {&ceiling.x_, &ceiling.y_}) {
    absl::StatusOr<Buffer> memory = device.Allocate(values.size() * sizeof(float));
    if (!memory.ok()) return memory.status();
    *buffer = *std::move(memory);
  }
  const absl::Status status =
      device.CopyFromHost(ceiling.x_.data(), values.data(), values.size() * sizeof(float));
  if (!status.ok()) return status;
  return ceiling;
}

absl::Status MatrixCeiling::Multiply(int times) {
  absl::Status status;
  for (int i = 0; i < times && status.ok(); ++i) {
    status = Linear(*device_, {.x = {x_.as<const float>(), {size_, size_}},
                               .weight = &weight_,
                               .y = {y_.as<float>(), {size_, size_}},
                               .chunk_rows = size_});
  }
  return status.ok() ? device_->Synchronize() : status;
}

absl::StatusOr<double> MatrixCeiling::Measure() {
  constexpr int kTimes = 5;
  if (absl::Status status = Multiply(1); !status.ok()) return status;
  const Stopwatch watch;
  if (absl::Status status = Multiply(kTimes); !status.ok()) return status;
  const auto n = static_cast<double>(size_);
  return 2 * kTimes * n * n * n / watch.Seconds() / 1e9;
}

}  // namespace tvq::bench
