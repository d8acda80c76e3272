#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/make_device.h"

namespace tvq {
namespace {

// Nothing; its presence tells whether this build holds code for a GPU.
__global__ void ProbeKernel() {}

absl::Status Missing(const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat("device 'cuda': ", what));
}

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(bool tf32) {
  int driver = 0;
  int count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return Missing("no NVIDIA driver on this machine (libcuda.so.1 not found)");
  }
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return Missing(absl::StrCat(cudaGetErrorString(error), "; the driver knows CUDA ",
                                VersionText(driver), ", this build needs ",
                                VersionText(CUDART_VERSION)));
  }
  if (count == 0) return Missing("no GPU that this process may see");

  cudaDeviceProp gpu{};
  absl::Status status = cuda::ToStatus(cudaGetDeviceProperties(&gpu, 0), "device 'cuda'");
  if (!status.ok()) return status;
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, ProbeKernel) != cudaSuccess) {
    return Missing(absl::StrCat("this build has no code for ", gpu.name, " (sm_", gpu.major,
                                gpu.minor, "); configure with -DTVQ_CUDA_ARCHITECTURES=", gpu.major,
                                gpu.minor));
  }
  cudaStream_t stream = nullptr;
  status = cuda::ToStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  if (!status.ok()) return status;
  return cuda::CudaDevice::Create(
      stream,
      absl::StrCat("cuda (", gpu.name, ", ", gpu.multiProcessorCount, " multiprocessors, ",
                   gpu.totalGlobalMem >> 30, " GiB", tf32 ? ", tf32)" : ")"),
      tf32);
}

}  // namespace tvq
