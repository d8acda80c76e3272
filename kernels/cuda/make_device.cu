#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/make_device.h"
#include "kernels/cuda/requirements.h"

namespace tvq {
namespace {

// Code that was compiled for a lower compute capability does not wait for the kernel before
// (overlap.cuh), whatever the GPU.
constexpr int kOverlapCode = 90;

// Does nothing; its presence tells whether this build holds code for a GPU.
__global__ void ProbeKernel() {}

// `gpu` gets the properties of the first GPU, if there is one.
cuda::Machine ThisMachine(cudaDeviceProp& gpu) {
  cuda::Machine machine{.runtime = CUDART_VERSION, .architectures = TVQ_CUDA_ARCHITECTURES};
  if (cudaDriverGetVersion(&machine.driver) != cudaSuccess) machine.driver = 0;
  if (machine.driver == 0) return machine;
  machine.gpus_error = cudaGetDeviceCount(&machine.gpus);
  if (machine.gpus_error != cudaSuccess || machine.gpus == 0) return machine;
  machine.gpus_error = cudaGetDeviceProperties(&gpu, 0);
  if (machine.gpus_error != cudaSuccess) return machine;
  machine.gpu = gpu.name;
  machine.major = gpu.major;
  machine.minor = gpu.minor;
  cudaFuncAttributes attributes{};
  machine.code_error = cudaFuncGetAttributes(&attributes, ProbeKernel);
  machine.code = attributes.ptxVersion;
  return machine;
}

}  // namespace

bool HasCuda() { return true; }

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(const CudaOptions& options) {
  cudaDeviceProp gpu{};
  const cuda::Machine machine = ThisMachine(gpu);
  absl::Status status = cuda::CheckMachine(machine);
  if (!status.ok()) return status;
  cudaStream_t stream = nullptr;
  status = cuda::ToStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  if (!status.ok()) return status;
  return cuda::CudaDevice::Create(
      stream,
      absl::StrCat(gpu.name, ", compute capability ", gpu.major, ".", gpu.minor, ", ",
                   gpu.multiProcessorCount, " multiprocessors, ", gpu.totalGlobalMem >> 30, " GiB"),
      options, machine.code >= kOverlapCode);
}

}  // namespace tvq
