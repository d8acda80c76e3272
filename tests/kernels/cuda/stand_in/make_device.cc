#include "tests/kernels/cuda/stand_in/make_device.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/kernels/cuda/stand_in/cuda_runtime.h"

namespace tvq {

std::unique_ptr<Device> MakeCudaStandIn(std::string_view order, const CudaOptions& options) {
  using cuda_stand_in::ThreadOrder;
  cuda_stand_in::SetThreadOrder({order == "backwards"  ? ThreadOrder::kBackwards
                                 : order == "shuffled" ? ThreadOrder::kShuffled
                                                       : ThreadOrder::kForwards,
                                 1});
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return cuda_stand_in::CudaDevice::Create(
             stream, absl::StrCat("on the CPU, threads ", std::string(order)), options, true)
      .value();
}

}  // namespace tvq
