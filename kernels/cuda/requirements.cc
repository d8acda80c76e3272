#include "kernels/cuda/requirements.h"

#include "absl/strings/str_cat.h"

namespace tvq::TVQ_CUDA {
namespace {

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// The first compute capability with matrix instructions of bfloat16.
constexpr int kLeastCapability = 80;

absl::Status Missing(const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat("device 'cuda': ", what));
}

}  // namespace

absl::Status CheckMachine(const Machine& machine) {
  const std::string needed = VersionText(machine.runtime);
  if (machine.driver == 0) {
    return Missing(absl::StrCat(
        "no NVIDIA driver on this machine (libcuda.so.1 not found); it takes one for CUDA ", needed,
        " or later. Without a GPU choose the device 'cpu'"));
  }
  if (machine.gpus_error == cudaErrorInsufficientDriver) {
    return Missing(absl::StrCat("the NVIDIA driver knows CUDA ", VersionText(machine.driver),
                                ", this build needs one for CUDA ", needed, " or later"));
  }
  if (machine.gpus_error == cudaErrorNoDevice ||
      (machine.gpus_error == cudaSuccess && machine.gpus == 0)) {
    return Missing(
        "the NVIDIA driver shows this process no GPU; CUDA_VISIBLE_DEVICES, or the container, may "
        "hide it");
  }
  if (machine.gpus_error != cudaSuccess) {
    return Missing(absl::StrCat("the NVIDIA driver (CUDA ", VersionText(machine.driver),
                                ") says: ", cudaGetErrorString(machine.gpus_error)));
  }
  const int capability = machine.major * 10 + machine.minor;
  if (capability < kLeastCapability) {
    return Missing(absl::StrCat(machine.gpu, " has compute capability ", machine.major, ".",
                                machine.minor, "; the device needs 8.0 or later"));
  }
  if (machine.code_error == cudaErrorNoKernelImageForDevice ||
      machine.code_error == cudaErrorInvalidDeviceFunction) {
    return Missing(absl::StrCat("this build holds code for compute capabilities ",
                                machine.architectures, ", and ", machine.gpu, " has ",
                                machine.major, ".", machine.minor,
                                "; configure with -DTVQ_CUDA_ARCHITECTURES=", capability));
  }
  // The driver would have to translate the code for this GPU, but it is older than the compiler
  // that wrote the code.
  if (machine.code_error == cudaErrorUnsupportedPtxVersion) {
    return Missing(absl::StrCat("the NVIDIA driver (CUDA ", VersionText(machine.driver),
                                ") cannot translate this build's ", "code (CUDA ", needed, ") for ",
                                machine.gpu, "; it takes a newer driver, or configure ",
                                "with -DTVQ_CUDA_ARCHITECTURES=", capability));
  }
  if (machine.code_error != cudaSuccess) {
    return Missing(absl::StrCat(machine.gpu, " says: ", cudaGetErrorString(machine.code_error)));
  }
  return absl::OkStatus();
}

}  // namespace tvq::TVQ_CUDA
