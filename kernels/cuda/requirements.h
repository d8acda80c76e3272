// What a machine must have for the device "cuda", and the error that says what is missing.
#ifndef TVQ_KERNELS_CUDA_REQUIREMENTS_H_
#define TVQ_KERNELS_CUDA_REQUIREMENTS_H_

#include <string>

#include "absl/status/status.h"
#include "kernels/cuda/platform.h"

namespace tvq::TVQ_CUDA {

// What CUDA's runtime says. A field has a meaning only when those before it are as they should be.
struct Machine {
  int driver = 0;   // the CUDA version that the driver knows, 1000 major + 10 minor; 0: none
  int runtime = 0;  // the CUDA version that this build needs
  cudaError_t gpus_error = cudaSuccess;  // of asking how many GPUs there are
  int gpus = 0;                          // that this process may see
  std::string gpu;                       // the name of the first
  int major = 0, minor = 0;              // its compute capability
  cudaError_t code_error = cudaSuccess;  // of looking for code of this build that it can run
  int code = 0;  // the compute capability that this code was compiled for, 10 major + minor
  std::string
      architectures;  // the ones that this build holds code for, as in TVQ_CUDA_ARCHITECTURES
};

// FAILED_PRECONDITION names what is missing and says what would be right.
absl::Status CheckMachine(const Machine& machine);

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_REQUIREMENTS_H_
