#include "tests/kernels/cuda/stand_in/breakdown.h"

#include <mutex>

namespace tvq::cuda_stand_in {
namespace {

struct Gpu {
  std::mutex mutex;
  int64_t done = 0;
  int64_t fails_at = -1;  // `done` by then; -1: never
  Notice notice = Notice::kAtOnce;
  bool broken = false, noticed = false;
};

Gpu& TheGpu() {
  static Gpu gpu;
  return gpu;
}

}  // namespace

void BreakDown(int64_t operations, Notice notice) {
  Gpu& gpu = TheGpu();
  const std::lock_guard lock(gpu.mutex);
  gpu.fails_at = gpu.done + operations;
  gpu.notice = notice;
}

void Repair() {
  Gpu& gpu = TheGpu();
  const std::lock_guard lock(gpu.mutex);
  gpu.fails_at = -1;
  gpu.broken = gpu.noticed = false;
}

int64_t OperationsDone() {
  Gpu& gpu = TheGpu();
  const std::lock_guard lock(gpu.mutex);
  return gpu.done;
}

bool BeginOperation() {
  Gpu& gpu = TheGpu();
  const std::lock_guard lock(gpu.mutex);
  if (gpu.done == gpu.fails_at) {
    gpu.broken = true;
    gpu.noticed = gpu.noticed || gpu.notice == Notice::kAtOnce;
  }
  if (!gpu.broken) ++gpu.done;
  return !gpu.broken;
}

cudaError_t ErrorOfCall() {
  Gpu& gpu = TheGpu();
  const std::lock_guard lock(gpu.mutex);
  return gpu.noticed ? cudaErrorIllegalAddress : cudaSuccess;
}

cudaError_t ErrorOfWait() {
  Gpu& gpu = TheGpu();
  const std::lock_guard lock(gpu.mutex);
  gpu.noticed = gpu.broken;
  return gpu.noticed ? cudaErrorIllegalAddress : cudaSuccess;
}

}  // namespace tvq::cuda_stand_in
