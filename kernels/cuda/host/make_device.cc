#include "kernels/cuda/host/make_device.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/host/cuda_host.h"

namespace tvq {

std::unique_ptr<Device> MakeCudaHostDevice(std::string_view order, const CudaOptions& options) {
  using cuda_host::ThreadOrder;
  cuda_host::SetThreadOrder({order == "backwards"  ? ThreadOrder::kBackwards
                             : order == "shuffled" ? ThreadOrder::kShuffled
                                                   : ThreadOrder::kForwards,
                             1});
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return cuda_host::CudaDevice::Create(
             stream, absl::StrCat("on the CPU, threads ", std::string(order)), options, true)
      .value();
}

}  // namespace tvq
