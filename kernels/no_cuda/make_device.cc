#include "kernels/cuda/make_device.h"

namespace tvq {

bool HasCuda() { return false; }

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(const CudaOptions&) {
  return absl::FailedPreconditionError(
      "device 'cuda': this build has no CUDA backend; build with cmake --preset cuda");
}

}  // namespace tvq
