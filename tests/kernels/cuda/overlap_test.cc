// Kernels that begin while the one before them ends: each way to break the rule (overlap.cuh) must
// show where kernels run on the CPU.
#include "tests/kernels/cuda/stand_in/overlap.h"

#include <cmath>
#include <functional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/cuda/stand_in/cuda_runtime.h"

namespace tvq::cuda_stand_in {
namespace {

constexpr unsigned kOverlapThreads = 64, kBlocks = 3, kCount = kOverlapThreads * kBlocks;

// out[i] = weight[i] * x[i], x being what the kernel before wrote.
class OverlapTest : public testing::Test {
 protected:
  OverlapTest() {
    for (float** array : {&weight_, &x_, &out_}) {
      void* memory = nullptr;
      EXPECT_EQ(cudaMalloc(&memory, kCount * sizeof(float)), cudaSuccess);
      *array = static_cast<float*>(memory);
    }
    const DeviceMemoryAccess access;
    for (unsigned i = 0; i < kCount; ++i) weight_[i] = 2, x_[i] = out_[i] = 0;
    SetOverlapCheck(true);
  }
  ~OverlapTest() override {
    SetOverlapCheck(false);
    for (float* array : {weight_, x_, out_}) cudaFree(array);
  }

  static unsigned Index() { return blockIdx.x * kOverlapThreads + threadIdx.x; }

  // `kernel` behind one that writes x[i] = i.
  std::vector<float> RunBehindAnother(const std::function<void()>& kernel) {
    RunGrid(
        "Before", {kBlocks}, {kOverlapThreads}, 0,
        [&] {
          WaitForGrid();
          x_[Index()] = static_cast<float>(Index());
        },
        true);
    RunGrid("Behind", {kBlocks}, {kOverlapThreads}, kOverlapThreads * sizeof(float), kernel, true);
    const DeviceMemoryAccess access;
    return {out_, out_ + kCount};
  }

  float *weight_ = nullptr, *x_ = nullptr, *out_ = nullptr;
};

using OverlapDeathTest = OverlapTest;

TEST_F(OverlapTest, WeightsMayBeReadAheadOfTheWait) {
  const std::vector<float> out = RunBehindAnother([&] {
    auto* shared = static_cast<float*>(DynamicSharedMemory());
    shared[threadIdx.x] = weight_[Index()];
    __syncthreads();
    const float weight = shared[kOverlapThreads - 1 - threadIdx.x];
    WaitForGrid();
    out_[Index()] = weight * x_[Index()];
  });
  for (unsigned i = 0; i < kCount; ++i) EXPECT_EQ(out[i], 2 * static_cast<float>(i));
}

TEST_F(OverlapTest, WhatTheKernelBeforeWroteMayNot) {
  const std::vector<float> out = RunBehindAnother([&] {
    const float x = x_[Index()];
    WaitForGrid();
    out_[Index()] = weight_[Index()] * x;
  });
  for (unsigned i = 0; i < kCount; ++i) EXPECT_TRUE(std::isnan(out[i])) << i;
}

// Behind the one before may still come what that one waits for.
TEST_F(OverlapTest, NorWhatAnEarlierOneWrote) {
  RunBehindAnother([&] { WaitForGrid(); });
  RunGrid(
      "Third", {kBlocks}, {kOverlapThreads}, 0,
      [&] {
        const float x = x_[Index()];
        WaitForGrid();
        out_[Index()] = x;
      },
      true);
  const DeviceMemoryAccess access;
  EXPECT_TRUE(std::isnan(out_[kCount - 1]));
}

TEST_F(OverlapDeathTest, NothingIsWrittenAheadOfTheWait) {
  for (float* to : {out_, x_}) {
    const auto run = [&] {
      RunBehindAnother([&] {
        if (Index() == kCount - 1) to[Index()] = 1;
        WaitForGrid();
      });
    };
    EXPECT_DEATH(run(), "kernel Behind: writes before it waits for the kernel before");
  }
}

TEST_F(OverlapDeathTest, EveryThreadWaits) {
  SetOverlapCheck(false);  // this is seen without it
  const auto run = [&] {
    RunBehindAnother([&] {
      if (Index() == kCount - 1) return;
      WaitForGrid();
    });
  };
  EXPECT_DEATH(run(), "kernel Behind: a thread that ends without having waited");
}

// Memory that was freed and comes again is another's.
TEST_F(OverlapTest, FreedMemoryIsForgotten) {
  RunBehindAnother([&] { WaitForGrid(); });
  cudaFree(x_);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, kCount * sizeof(float)), cudaSuccess);
  x_ = static_cast<float*>(memory);
  {
    const DeviceMemoryAccess access;
    for (unsigned i = 0; i < kCount; ++i) x_[i] = 5;
  }
  RunGrid(
      "Reads", {kBlocks}, {kOverlapThreads}, 0,
      [&] {
        const float x = x_[Index()];
        WaitForGrid();
        out_[Index()] = x;
      },
      true);
  const DeviceMemoryAccess access;
  EXPECT_EQ(out_[kCount - 1], 5);
}

}  // namespace
}  // namespace tvq::cuda_stand_in
