// What a machine without what the device "cuda" needs is told: the messages, from what CUDA's
// runtime would answer there.
#include "kernels/cuda/requirements.h"

#include <string>

#include "gtest/gtest.h"

namespace tvq::cuda_stand_in {
namespace {

Machine Working() {
  return {.driver = 13000,
          .runtime = 13000,
          .gpus = 1,
          .gpu = "NVIDIA H200",
          .major = 9,
          .minor = 0,
          .architectures = "80, 90a"};
}

std::string Refusal(const Machine& machine) {
  const absl::Status status = CheckMachine(machine);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  return std::string(status.message());
}

TEST(RequirementsTest, AreMet) { EXPECT_TRUE(CheckMachine(Working()).ok()); }

TEST(RequirementsTest, WithoutADriver) {
  EXPECT_EQ(
      Refusal({.runtime = 13000, .architectures = "80"}),
      "device 'cuda': no NVIDIA driver on this machine (libcuda.so.1 not found); it takes one "
      "for CUDA 13.0 or later. Without a GPU choose the device 'cpu'");
}

TEST(RequirementsTest, WithAnOldDriver) {
  Machine machine = Working();
  machine.driver = 12040;
  machine.gpus_error = cudaErrorInsufficientDriver;
  EXPECT_EQ(Refusal(machine),
            "device 'cuda': the NVIDIA driver knows CUDA 12.4, this build needs one for CUDA 13.0 "
            "or later");
}

TEST(RequirementsTest, WithoutAGpu) {
  Machine none = Working(), hidden = Working();
  none.gpus_error = cudaErrorNoDevice;
  hidden.gpus = 0;
  for (const Machine& machine : {none, hidden}) {
    EXPECT_EQ(
        Refusal(machine),
        "device 'cuda': the NVIDIA driver shows this process no GPU; CUDA_VISIBLE_DEVICES, or "
        "the container, may hide it");
  }
}

TEST(RequirementsTest, WithAGpuThatTheBuildHasNoCodeFor) {
  for (const cudaError_t error :
       {cudaErrorNoKernelImageForDevice, cudaErrorInvalidDeviceFunction}) {
    Machine machine = Working();
    machine.gpu = "NVIDIA A100";
    machine.major = 8;
    machine.architectures = "90a";
    machine.code_error = error;
    EXPECT_EQ(Refusal(machine),
              "device 'cuda': this build holds code for compute capabilities 90a, and NVIDIA A100 "
              "has 8.0; configure with -DTVQ_CUDA_ARCHITECTURES=80");
  }
}

TEST(RequirementsTest, WithAGpuThatNoBuildHasCodeFor) {
  Machine machine = Working();
  machine.gpu = "NVIDIA T4";
  machine.major = 7;
  machine.minor = 5;
  machine.code_error = cudaErrorNoKernelImageForDevice;
  EXPECT_EQ(Refusal(machine),
            "device 'cuda': NVIDIA T4 has compute capability 7.5; the device needs 8.0 or later");
}

TEST(RequirementsTest, WithADriverThatCannotTranslateTheCode) {
  Machine machine = Working();
  machine.runtime = 13010;
  machine.gpu = "NVIDIA B200";
  machine.major = 10;
  machine.code_error = cudaErrorUnsupportedPtxVersion;
  EXPECT_EQ(Refusal(machine),
            "device 'cuda': the NVIDIA driver (CUDA 13.0) cannot translate this build's code (CUDA "
            "13.1) for NVIDIA B200; it takes a newer driver, or configure with "
            "-DTVQ_CUDA_ARCHITECTURES=100");
}

TEST(RequirementsTest, OtherErrorsHaveTheirOwnWords) {
  Machine unknown = Working(), broken = Working();
  unknown.gpus_error = cudaErrorIllegalAddress;
  broken.code_error = cudaErrorMemoryAllocation;
  EXPECT_EQ(Refusal(unknown),
            "device 'cuda': the NVIDIA driver (CUDA 13.0) says: an illegal memory access was "
            "encountered");
  EXPECT_EQ(Refusal(broken), "device 'cuda': NVIDIA H200 says: out of memory");
}

}  // namespace
}  // namespace tvq::cuda_stand_in
