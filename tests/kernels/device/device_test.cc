#include "kernels/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/make_device.h"
#include "tests/kernels/test_devices.h"

namespace tvq {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// Where there is no GPU to make a device of, the message says which of its needs is not met.
TEST(MakeDeviceTest, CudaSaysWhatIsMissing) {
  const auto device = MakeDevice("cuda");
  if (device.ok()) {
    EXPECT_FALSE((*device)->host_memory());
    EXPECT_THAT((*device)->Describe(), HasSubstr("cuda"));
    return;
  }
  EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(device.status().message()),
              AnyOf(HasSubstr("no CUDA backend; build with"), HasSubstr("no NVIDIA driver"),
                    HasSubstr("driver knows CUDA"), HasSubstr("no GPU"),
                    HasSubstr("holds code for"), HasSubstr("needs 8.0 or later")));
  EXPECT_TRUE(MakeDevice("cpu").ok());
  for (const char* options : {"tf32", "serial", "serial,tf32"}) {
    EXPECT_EQ(MakeDevice("cuda", 0, options).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
  for (const char* options : {"avx2", "tf32,avx2", "tf32 serial", ","}) {
    const absl::Status status = MakeDevice("cuda", 0, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << options;
    EXPECT_THAT(std::string(status.message()), HasSubstr("available: tf32, serial"));
  }
}

TEST(MakeDeviceTest, AnUnknownNameIsToldWhichThereAreInThisBuild) {
  const absl::Status status = MakeDevice("gpu").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()),
            std::string("device 'gpu': unknown, must be cpu, reference") +
                (HasCuda() ? " or cuda" : ", or cuda in a build with it"));
}

// Otherwise nobody would see that steps are slower than they could be. Where there is a GPU,
// scripts/gpu-check compares this with what the GPU can.
TEST(MakeDeviceTest, CudaSaysWhetherKernelsOverlap) {
  EXPECT_EQ(MakeCudaStandIn("backwards")->Describe(),
            "cuda (on the CPU, threads backwards, overlapping)");
  if (const auto serial = MakeDevice("cuda", 0, "serial"); serial.ok()) {
    EXPECT_THAT((*serial)->Describe(), HasSubstr(", serial)"));
  }
}

std::vector<uint8_t> RandomBytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

class DeviceTest : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam());
    device_ = MakeTestDevice(GetParam());
  }
  // What comes back after a way over the device, through two places there.
  std::vector<uint8_t> RoundTrip(const std::vector<uint8_t>& bytes) {
    const Buffer first = device_->Allocate(bytes.size()).value();
    const Buffer second = device_->Allocate(bytes.size()).value();
    std::vector<uint8_t> back(bytes.size());
    absl::Status status = device_->CopyFromHost(first.data(), bytes.data(), bytes.size());
    status.Update(device_->CopyWithin(second.data(), first.data(), bytes.size()));
    status.Update(device_->CopyToHost(back.data(), second.data(), bytes.size()));
    EXPECT_TRUE(status.ok()) << status.ToString();
    return back;
  }

  std::unique_ptr<Device> device_;
};

// Less than a piece of a long copy, whole pieces, and a bit more than two and three of 1 MiB.
TEST_P(DeviceTest, CopiesOfAnySizeArriveWhole) {
  constexpr size_t kPiece = size_t{1} << 20;
  for (const size_t size :
       {size_t{1}, size_t{4095}, kPiece, 2 * kPiece, 2 * kPiece + 1, 3 * kPiece + 77}) {
    const std::vector<uint8_t> bytes = RandomBytes(size, static_cast<uint32_t>(size));
    EXPECT_TRUE(RoundTrip(bytes) == bytes) << size;
  }
  EXPECT_TRUE(device_->CopyToHost(nullptr, nullptr, 0).ok());
  EXPECT_TRUE(device_->CopyFromHost(nullptr, nullptr, 0).ok());
}

TEST_P(DeviceTest, CopiesOfManyThreadsDoNotMix) {
  std::vector<std::thread> threads;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([this, seed] {
      for (uint32_t round = 0; round < 5; ++round) {
        const std::vector<uint8_t> bytes = RandomBytes(700'000 * seed + round, seed * 100 + round);
        EXPECT_TRUE(RoundTrip(bytes) == bytes) << seed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(DeviceTest, MemoryIsZeroedAndReusableMemorySaysWhetherItIs) {
  const std::vector<uint8_t> ones(size_t{5} << 20, 1);
  for (int round = 0; round < 3; ++round) {
    const Buffer zeroed = device_->Allocate(ones.size()).value();
    Device::Reusable reusable = device_->AllocateReusable(ones.size()).value();
    if (!reusable.zeroed) {
      ASSERT_TRUE(device_->Zero(reusable.memory.data(), ones.size()).ok());
    }
    for (const void* memory : {zeroed.data(), reusable.memory.data()}) {
      std::vector<uint8_t> read(ones.size(), 2);
      ASSERT_TRUE(device_->CopyToHost(read.data(), memory, read.size()).ok());
      EXPECT_EQ(std::count(read.begin(), read.end(), 0), std::ssize(read));
    }
    for (void* memory : {zeroed.data(), reusable.memory.data()}) {
      ASSERT_TRUE(device_->CopyFromHost(memory, ones.data(), ones.size()).ok());
    }
  }
}

TEST_P(DeviceTest, TellsWhatOperationsTook) {
  const Buffer memory = device_->Allocate(1000).value();
  const auto begin = device_->Now().value();
  ASSERT_TRUE(device_->Zero(memory.data(), memory.bytes()).ok());
  const auto end = device_->Now().value();
  const absl::StatusOr<double> took = (*end).SecondsSince(*begin);
  ASSERT_TRUE(took.ok()) << took.status();
  EXPECT_GE(*took, 0);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceTest, ::testing::ValuesIn(AllDevices()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tvq
