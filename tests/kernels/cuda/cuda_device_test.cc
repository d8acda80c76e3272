// The GPU's device where kernels run on the CPU: its scratch memory, what a launch refuses, and
// products that may round their factors.
#include "kernels/cuda/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/ops/linear.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq::cuda_stand_in {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsNan;

template <typename T>
std::vector<T> Read(Device& device, const T* from, size_t count) {
  std::vector<T> values(count);
  EXPECT_TRUE(device.CopyToHost(values.data(), from, count * sizeof(T)).ok());
  return values;
}

// An op that reads what it did not write gets NaN, also where the same op wrote a call before.
TEST(CudaDeviceTest, ScratchHoldsNothing) {
  const std::unique_ptr<Device> device = MakeCudaStandIn("forwards");
  for (const int64_t count : {7, 5, 9}) {
    float* const scratch = AsCuda(*device).Scratch<float>(3, count).value();
    EXPECT_THAT(Read(*device, scratch, static_cast<size_t>(count)), Each(IsNan()));
    ASSERT_TRUE(device->Zero(scratch, static_cast<size_t>(count) * sizeof(float)).ok());
  }
}

TEST(CudaDeviceTest, TicketsLieAtZero) {
  const std::unique_ptr<Device> device = MakeCudaStandIn("forwards");
  for (const int64_t count : {3, 2, 40}) {
    const uint32_t* const tickets = AsCuda(*device).Tickets(count).value();
    EXPECT_THAT(Read(*device, tickets, static_cast<size_t>(count)), Each(0U));
  }
}

void CountBlocksKernel(uint32_t* blocks) { atomicAdd(blocks, 1U); }

TEST(CudaDeviceTest, MoreBlocksThanAGridTakesAreRefusedByName) {
  const std::unique_ptr<Device> device = MakeCudaStandIn("forwards");
  uint32_t* const blocks = AsCuda(*device).Tickets(1).value();
  const auto launch = [&](int64_t count) {
    return Launch("CountBlocks", *device, {.blocks_y = count, .threads = 1}, CountBlocksKernel,
                  blocks);
  };
  EXPECT_TRUE(launch(kMostBlocksY).ok());
  EXPECT_THAT(Read(*device, blocks, 1), Each(65'535U));
  const absl::Status status = launch(kMostBlocksY + 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("CountBlocks: 65536 rows of blocks"));
}

void TakeSharedKernel(uint32_t* blocks, int bytes) {
  LaunchShared<char>()[bytes - 1] = 0;
  atomicAdd(blocks, 1U);
}

// Of one kernel, launches that take more shared memory than any has without leave, and less.
TEST(CudaDeviceTest, NoLaunchTakesARecordedOnesSharedMemory) {
  const std::unique_ptr<Device> device = MakeCudaStandIn("forwards");
  uint32_t* const blocks = AsCuda(*device).Tickets(1).value();
  const auto launch = [&](int bytes) {
    return Launch("TakeShared", *device, {.threads = 1, .shared_bytes = bytes}, TakeSharedKernel,
                  blocks, bytes);
  };
  const auto recording = device->Record([&] { return launch(60 << 10); });
  ASSERT_TRUE(recording.ok()) << recording.status();
  for (const int kib : {99, 61, 49, 1}) EXPECT_TRUE(launch(kib << 10).ok()) << kib;
  EXPECT_TRUE((*recording)->Run().ok());
  EXPECT_THAT(Read(*device, blocks, 1), Each(5U));
  EXPECT_FALSE(launch((99 << 10) + 1).ok());
}

constexpr int64_t kRows = 5, kIn = 130, kOut = 20;

// Linear of the same numbers.
std::vector<float> Product(const CudaOptions& options, DType dtype, int64_t chunk_rows) {
  const std::unique_ptr<Device> device = MakeCudaStandIn("forwards", options);
  const std::vector<float> w = RandomFloats(kOut * kIn, 1), x = RandomFloats(kRows * kIn, 2);
  const HostMatrix matrix{w.data(), kOut, kIn};
  const LinearWeight weight = PackLinear(*device, {&matrix, 1}, dtype).value();
  const DeviceArray<float> in(*device, x), out(*device, std::vector<float>(kRows * kOut));
  const absl::Status status = Linear(*device, {.x = {in.data(), {kRows, kIn}},
                                               .weight = &weight,
                                               .y = {out.data(), {kRows, kOut}},
                                               .chunk_rows = chunk_rows});
  EXPECT_TRUE(status.ok()) << status;
  return out.Read();
}

// tf32 keeps 11 bits of a factor: where the others are cut off it errs by less than 2^-10 of it, a
// product of two by less than 2^-9 of its size. Sums in float32 err a thousand times less.
TEST(CudaDeviceTest, OnlyChunksOfFloat32AreRoundedToTf32AndOnlyWhenAsked) {
  const std::vector<float> exact = Product({}, DType::kFloat32, 8);
  const std::vector<float> rounded = Product({.tf32 = true}, DType::kFloat32, 8);
  const std::vector<float> w = RandomFloats(kOut * kIn, 1), x = RandomFloats(kRows * kIn, 2);
  double largest = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t out = 0; out < kOut; ++out) {
      double size = 0;
      for (int64_t i = 0; i < kIn; ++i) {
        size += std::abs(double{w[static_cast<size_t>(out * kIn + i)]} *
                         x[static_cast<size_t>(row * kIn + i)]);
      }
      const auto at = static_cast<size_t>(row * kOut + out);
      const double error = std::abs(double{rounded[at]} - exact[at]) / size;
      EXPECT_LT(error, std::exp2(-9)) << row << ", " << out;
      largest = std::max(largest, error);
    }
  }
  EXPECT_GT(largest, std::exp2(-16)) << "nothing was rounded";

  // Decode's products, and those of other types, are what they are without it.
  EXPECT_EQ(Product({.tf32 = true}, DType::kFloat32, 0), Product({}, DType::kFloat32, 0));
  for (const DType dtype : {DType::kBFloat16, DType::kInt8}) {
    EXPECT_EQ(Product({.tf32 = true}, dtype, 8), Product({}, dtype, 8)) << Name(dtype);
  }
}

}  // namespace
}  // namespace tvq::cuda_stand_in
