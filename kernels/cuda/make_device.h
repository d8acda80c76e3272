// Makes the device "cuda". Implemented by this folder, or by kernels/no_cuda in builds without
// CUDA.
#ifndef TVQ_KERNELS_CUDA_MAKE_DEVICE_H_
#define TVQ_KERNELS_CUDA_MAKE_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace tvq {

struct CudaOptions {
  bool tf32 = false;    // products of float32 in chunks of prompts may round factors to 11 bits
  bool serial = false;  // no kernel begins before the one ahead of it has ended
};

// Whether this build has the device at all.
bool HasCuda();

// The first GPU that the process may see (CUDA_VISIBLE_DEVICES). FAILED_PRECONDITION says what is
// missing: a build with CUDA, NVIDIA's driver or one new enough, a GPU, code for its architecture.
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(const CudaOptions& options);

}  // namespace tvq

#endif  // TVQ_KERNELS_CUDA_MAKE_DEVICE_H_
