// The CUDA kernels on the CPU, for tests.
#ifndef TVQ_TESTS_KERNELS_CUDA_STAND_IN_MAKE_DEVICE_H_
#define TVQ_TESTS_KERNELS_CUDA_STAND_IN_MAKE_DEVICE_H_

#include <memory>
#include <string_view>

#include "kernels/cuda/make_device.h"
#include "kernels/device/device.h"

namespace tvq {

// The threads of a block take turns "forwards", "backwards" or "shuffled": in the whole process, so
// devices of different order must not be used alternately.
std::unique_ptr<Device> MakeCudaStandIn(std::string_view order, const CudaOptions& options = {});

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_CUDA_STAND_IN_MAKE_DEVICE_H_
