// The rate at which a device multiplies matrices: what prefill is measured against.
#ifndef TVQ_TESTS_BENCH_MATRIX_CEILING_H_
#define TVQ_TESTS_BENCH_MATRIX_CEILING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/ops/linear.h"

namespace tvq::bench {

// One product of square matrices by the op that multiplies a prompt's chunks
// (kernels/ops/linear.h), with weights of the model's type. What that op does beside multiplying,
// to round x and to store y, counts: a few hundredths of the time at kGpuSize.
class MatrixCeiling {
 public:
  // Large enough to fill every GPU of today, 1.1e12 operations; and what takes a CPU milliseconds.
  static constexpr int64_t kGpuSize = 8192, kCpuSize = 1024;

  // `size`: rows and columns; 0: the device's of these. The device outlives it.
  static absl::StatusOr<MatrixCeiling> Create(Device& device, DType dtype, int64_t size);

  // GFLOP/s (1e9).
  absl::StatusOr<double> Measure();

 private:
  explicit MatrixCeiling(Device& device) : device_(&device) {}
  absl::Status Multiply(int times);

  Device* device_;
  int64_t size_ = 0;
  LinearWeight weight_;
  Buffer x_, y_;
};

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_MATRIX_CEILING_H_
