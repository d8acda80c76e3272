// What running kernels as fibers must find: each planted mistake is one that a GPU may well hide.
#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/cuda/stand_in/cuda_runtime.h"

namespace tvq::cuda_stand_in {
namespace {

constexpr ThreadOrder kOrders[] = {{ThreadOrder::kForwards, 1},
                                   {ThreadOrder::kBackwards, 1},
                                   {ThreadOrder::kShuffled, 1},
                                   {ThreadOrder::kShuffled, 2}};
constexpr unsigned kThreads = 96;

// Reverses a block's part of `in` through shared memory; without the barrier it is wrong.
std::vector<int> ReverseBlocks(const std::vector<int>& in, bool barrier) {
  std::vector<int> out(in.size(), -1);
  const auto blocks = static_cast<unsigned>(in.size()) / kThreads;
  RunGrid("Reverse", {blocks}, {kThreads}, kThreads * sizeof(int), [&] {
    int* shared = static_cast<int*>(DynamicSharedMemory());
    const unsigned first = blockIdx.x * blockDim.x;
    shared[threadIdx.x] = in[first + threadIdx.x];
    if (barrier) __syncthreads();
    out[first + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
  });
  return out;
}

class CudaStandInTest : public testing::Test {
 protected:
  void TearDown() override { SetThreadOrder({}); }

  CudaStandInTest() : in_(3 * kThreads) { std::iota(in_.begin(), in_.end(), 0); }
  std::vector<int> in_;
};

TEST_F(CudaStandInTest, ABarrierOrdersTheBlock) {
  for (const ThreadOrder order : kOrders) {
    SetThreadOrder(order);
    const std::vector<int> out = ReverseBlocks(in_, true);
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t first = i / kThreads * kThreads;
      ASSERT_EQ(out[i], in_[first + kThreads - 1 - (i - first)]);
    }
  }
}

TEST_F(CudaStandInTest, AMissingBarrierShows) {
  const std::vector<int> right = ReverseBlocks(in_, true);
  for (const ThreadOrder order : kOrders) {
    SetThreadOrder(order);
    EXPECT_NE(ReverseBlocks(in_, false), right);
  }
}

// Where warps had their barriers in step, it would look as if these ordered the block.
TEST_F(CudaStandInTest, AWarpsBarrierDoesNotOrderTheBlock) {
  for (const ThreadOrder order : kOrders) {
    SetThreadOrder(order);
    std::vector<int> out(kThreads, -1);
    RunGrid("OfWarps", {1}, {kThreads}, kThreads * sizeof(int), [&] {
      int* shared = static_cast<int*>(DynamicSharedMemory());
      shared[threadIdx.x] = static_cast<int>(threadIdx.x);
      __syncwarp();
      out[threadIdx.x] = shared[(threadIdx.x + 32) % kThreads];
    });
    for (unsigned i = 0; i < kThreads; ++i) in_[i] = static_cast<int>((i + 32) % kThreads);
    in_.resize(kThreads);
    EXPECT_NE(out, in_);
  }
}

// A thread that reads what only an earlier one writes sees it when threads run forwards: another
// order finds the mistake.
TEST_F(CudaStandInTest, AnotherOrderFindsWhatOneOrderHides) {
  const auto shift = [] {
    std::vector<int> out(kThreads, -1);
    RunGrid("Shift", {1}, {kThreads}, (kThreads + 1) * sizeof(int), [&] {
      int* shared = static_cast<int*>(DynamicSharedMemory());
      if (threadIdx.x == 0) shared[0] = 0;
      shared[threadIdx.x + 1] = static_cast<int>(threadIdx.x) + 1;
      out[threadIdx.x] = shared[threadIdx.x];
    });
    return out;
  };
  const std::vector<int> forwards = shift();
  SetThreadOrder({ThreadOrder::kBackwards, 1});
  EXPECT_NE(shift(), forwards);
}

TEST_F(CudaStandInTest, SharedMemoryIsNotInitialised) {
  std::vector<float> out(2);
  RunGrid("Uninitialised", {2}, {1}, sizeof(float), [&] {
    float* shared = static_cast<float*>(DynamicSharedMemory());
    out[blockIdx.x] = *shared;
    *shared = 1;
  });
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_TRUE(std::isnan(out[1])) << "left over from the block before";
}

TEST_F(CudaStandInTest, WarpFunctionsExchangeWithinTheWarp) {
  for (const ThreadOrder order : kOrders) {
    SetThreadOrder(order);
    std::vector<int> sum(kThreads), from_next(kThreads), first(kThreads);
    std::vector<uint32_t> odd(kThreads);
    RunGrid("Warp", {1}, {kThreads}, 0, [&] {
      const int me = static_cast<int>(threadIdx.x);
      int value = me;
      for (int bits = 16; bits > 0; bits /= 2) value += __shfl_xor_sync(~0U, value, bits);
      sum[threadIdx.x] = value;
      from_next[threadIdx.x] = __shfl_down_sync(~0U, me, 1);
      first[threadIdx.x] = __shfl_sync(~0U, me, 0);
      odd[threadIdx.x] = __ballot_sync(~0U, me % 2 == 1);
    });
    for (int i = 0; i < static_cast<int>(kThreads); ++i) {
      const int warp = i / 32 * 32;
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(sum[at], 32 * warp + 31 * 32 / 2);
      EXPECT_EQ(from_next[at], i % 32 == 31 ? i : i + 1);
      EXPECT_EQ(first[at], warp);
      EXPECT_EQ(odd[at], 0xaaaaaaaaU);
    }
  }
}

// Copies on their way into shared memory: of each thread a float to either half, a group each, and
// what it finds there behind `wait`.
class AsyncCopyTest : public CudaStandInTest {
 protected:
  static constexpr size_t kHalf = kThreads;

  AsyncCopyTest() : from_(2 * kHalf) { std::iota(from_.begin(), from_.end(), 0.0F); }

  std::vector<float> Bring(const std::function<void()>& wait) {
    std::vector<float> found(2 * kHalf);
    RunGrid("Bring", {1}, {kThreads}, 2 * kHalf * sizeof(float), [&] {
      float* shared = static_cast<float*>(DynamicSharedMemory());
      for (size_t i = threadIdx.x; i < 2 * kHalf; i += kHalf) {
        StartAsyncCopy(shared + i, from_.data() + i, sizeof(float));
        CloseAsyncCopies();
      }
      wait();
      for (size_t i = threadIdx.x; i < 2 * kHalf; i += kHalf) found[i] = shared[i];
    });
    return found;
  }
  static size_t NaNs(const std::vector<float>& floats) {
    return static_cast<size_t>(
        std::count_if(floats.begin(), floats.end(), [](float x) { return std::isnan(x); }));
  }

  std::vector<float> from_;
};

TEST_F(AsyncCopyTest, WhatWasWaitedForIsThere) {
  for (const ThreadOrder order : kOrders) {
    SetThreadOrder(order);
    EXPECT_EQ(Bring([] { WaitForAsyncCopies(0); }), from_);
  }
}

TEST_F(AsyncCopyTest, AMissingWaitShows) {
  EXPECT_EQ(NaNs(Bring([] {})), 2 * kHalf);
  EXPECT_EQ(NaNs(Bring([] { __syncthreads(); })), 2 * kHalf) << "a barrier is no wait";
}

TEST_F(AsyncCopyTest, AWaitThatLeavesTheLastGroupBringsTheOthers) {
  const std::vector<float> found = Bring([] { WaitForAsyncCopies(1); });
  EXPECT_TRUE(std::equal(from_.data(), from_.data() + kHalf, found.data()));
  EXPECT_EQ(NaNs(found), kHalf);
}

TEST_F(AsyncCopyTest, AWaitForAGroupThatIsNotClosedShows) {
  float found = 0;
  RunGrid("Open", {1}, {1}, sizeof(float), [&] {
    float* shared = static_cast<float*>(DynamicSharedMemory());
    StartAsyncCopy(shared, from_.data(), sizeof(float));
    WaitForAsyncCopies(0);
    found = *shared;
  });
  EXPECT_TRUE(std::isnan(found));
}

TEST_F(AsyncCopyTest, ASourceThatIsWrittenMeanwhileShows) {
  const std::vector<float> found = Bring([&] {
    from_[threadIdx.x] = -1;
    WaitForAsyncCopies(0);
  });
  EXPECT_EQ(NaNs(found), kHalf);
}

TEST_F(AsyncCopyTest, NothingLivesOnFromTheBlockBefore) {
  std::vector<float> found(2);
  RunGrid("Blocks", {2}, {1}, sizeof(float), [&] {
    float* shared = static_cast<float*>(DynamicSharedMemory());
    if (blockIdx.x == 0) {
      StartAsyncCopy(shared, from_.data(), sizeof(float));
      CloseAsyncCopies();
    }
    *shared = 7;
    if (blockIdx.x == 1) WaitForAsyncCopies(0);
    found[blockIdx.x] = *shared;
  });
  EXPECT_EQ(found, (std::vector<float>{7, 7}));
}

using CudaStandInDeathTest = CudaStandInTest;
using AsyncCopyDeathTest = AsyncCopyTest;

TEST_F(AsyncCopyDeathTest, MoreThanAreRemembered) {
  const auto run = [&] {
    RunGrid("Many", {1}, {1}, sizeof(float), [&] {
      while (true) StartAsyncCopy(DynamicSharedMemory(), from_.data(), sizeof(float));
    });
  };
  EXPECT_DEATH(run(), "kernel Many: a thread with more copies on their way than");
}

// What a block may take is all of both kinds.
TEST_F(CudaStandInDeathTest, MoreSharedMemoryThanEveryGpuGives) {
  constexpr size_t kAll = 99 * 1024;
  const auto run = [](size_t dynamic_bytes, size_t static_bytes) {
    RunGrid("Large", {1}, {1}, dynamic_bytes, [=] { StaticSharedMemory(static_bytes); });
  };
  run(kAll - 8, 8);
  EXPECT_DEATH(run(kAll - 8, 9), "kernel Large: more than 99 KiB of shared memory for a block");
  EXPECT_DEATH(run(kAll + 1, 0), "kernel Large: more than 99 KiB of shared memory for a block");
}

TEST_F(CudaStandInDeathTest, ABarrierThatSomeThreadsMiss) {
  const auto run = [] {
    RunGrid("Half", {1}, {64}, 0, [] {
      if (threadIdx.x < 32) __syncthreads();
    });
  };
  EXPECT_DEATH(run(), "kernel Half: a barrier or warp function that not all of its threads reach");
}

TEST_F(CudaStandInDeathTest, AWarpFunctionThatSomeLanesMiss) {
  const auto run = [] {
    RunGrid("Lanes", {1}, {32}, 0, [] {
      if (threadIdx.x != 7) __syncwarp();
    });
  };
  EXPECT_DEATH(run(), "kernel Lanes: a barrier or warp function");
}

#if defined(TVQ_ADDRESS_SANITIZER)
TEST_F(CudaStandInDeathTest, OneElementBeyondSharedMemory) {
  const auto run = [] {
    RunGrid("OffByOne", {1}, {32}, 32 * sizeof(float),
            [] { static_cast<float*>(DynamicSharedMemory())[threadIdx.x + 1] = 0; });
  };
  EXPECT_DEATH(run(), "heap-buffer-overflow");
}

TEST_F(CudaStandInDeathTest, OneElementBeyondGlobalMemory) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 32 * sizeof(float)), cudaSuccess);
  const auto run = [memory] {
    RunGrid("OffByOne", {1}, {32}, 0,
            [memory] { static_cast<float*>(memory)[threadIdx.x + 1] = 0; });
  };
  EXPECT_DEATH(run(), "heap-buffer-overflow");
  cudaFree(memory);
}

TEST_F(CudaStandInDeathTest, TheHostTouchesDeviceMemory) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 32 * sizeof(float)), cudaSuccess);
  RunGrid("Write", {1}, {32}, 0, [memory] { static_cast<float*>(memory)[threadIdx.x] = 1; });
  const auto run = [memory] { static_cast<float*>(memory)[3] = 0; };
  EXPECT_DEATH(run(), "use-after-poison");
  cudaFree(memory);
}
#endif

}  // namespace
}  // namespace tvq::cuda_stand_in
