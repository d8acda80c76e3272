#include "kernels/cpu/cpu_device.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/usable_cores.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tvq {
namespace {

using testing::HasSubstr;

TEST(CpuDeviceTest, AllocatesZeroedAlignedMemory) {
  auto device = MakeDevice("cpu", 1).value();
  for (size_t bytes :
       {size_t{1}, size_t{63}, size_t{4097}, size_t{2} << 20, (size_t{5} << 20) + 3}) {
    for (int round = 0; round < 2; ++round) {
      Buffer buffer = device->Allocate(bytes).value();
      EXPECT_EQ(buffer.bytes(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0U);
      const uint8_t* data = buffer.as<uint8_t>();
      EXPECT_TRUE(std::all_of(data, data + bytes, [](uint8_t b) { return b == 0; }));
      std::memset(buffer.data(), 0xff, bytes);  // what a second owner must not see
    }
  }
  EXPECT_EQ(device->Allocate(0).value().bytes(), 0U);
}

TEST(CpuDeviceTest, GivesReusableMemoryAgain) {
  auto device = MakeDevice("cpu", 1).value();
  for (size_t bytes : {size_t{63}, size_t{2} << 20, (size_t{5} << 20) + 3}) {
    for (int round = 0; round < 3; ++round) {
      const Device::Reusable block = device->AllocateReusable(bytes).value();
      EXPECT_EQ(block.memory.bytes(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block.memory.data()) % 64, 0U);
      const uint8_t* data = block.memory.as<uint8_t>();
      if (block.zeroed) {
        EXPECT_TRUE(std::all_of(data, data + bytes, [](uint8_t b) { return b == 0; }));
      }
      // Only the first large block of a size is fresh.
      EXPECT_EQ(block.zeroed, round == 0 && bytes >= size_t{2} << 20);
      std::memset(block.memory.data(), 0xff, bytes);
      ASSERT_TRUE(device->Zero(block.memory.data(), bytes).ok());
      EXPECT_TRUE(std::all_of(data, data + bytes, [](uint8_t b) { return b == 0; }));
    }
  }
  EXPECT_EQ(device->AllocateReusable(0).value().memory.bytes(), 0U);
}

TEST(CpuDeviceTest, ReusableMemoryMayOutliveItsDevice) {
  auto device = MakeDevice("cpu", 1).value();
  Device::Reusable block = device->AllocateReusable(size_t{3} << 20).value();
  device.reset();
  std::memset(block.memory.data(), 1, block.memory.bytes());
}

TEST(CpuDeviceTest, TooLargeAnAllocationNamesItsSize) {
  auto device = MakeDevice("cpu", 1).value();
  for (size_t bytes : {size_t{1} << 60, SIZE_MAX}) {
    for (const absl::Status& status :
         {device->Allocate(bytes).status(), device->AllocateReusable(bytes).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(bytes)));
    }
  }
}

TEST(CpuDeviceTest, CopiesOverlappingMemory) {
  auto device = MakeDevice("cpu", 1).value();
  char text[] = "abcdef";
  ASSERT_TRUE(device->CopyWithin(text + 1, text, 4).ok());
  EXPECT_STREQ(text, "aabcdf");
  ASSERT_TRUE(device->CopyToHost(nullptr, nullptr, 0).ok());
}

TEST(CpuDeviceTest, ScratchKeepsSlotsApartAndGrows) {
  auto device = MakeDevice("cpu", 1).value();
  CpuDevice& cpu = AsCpu(*device);
  float* a = cpu.Scratch<float>(0, 10);
  float* b = cpu.Scratch<float>(3, 10);
  EXPECT_NE(a, b);
  EXPECT_EQ(cpu.Scratch<float>(0, 10), a);
  cpu.Scratch<float>(0, 1 << 20)[(1 << 20) - 1] = 1;
}

TEST(MakeDeviceTest, DescribesItself) {
  EXPECT_EQ(MakeDevice("reference").value()->Describe(), "reference (float64, 1 thread)");
  for (const std::string& isa : AvailableIsas()) {
    EXPECT_EQ(MakeDevice("cpu", 2, isa).value()->Describe(), "cpu (" + isa + ", 2 threads)");
    const auto device = MakeDevice("cpu", 1, isa).value();
    const DotInstructions& dot = AsCpu(*device).dot();
    EXPECT_EQ(dot.bf16, isa == "avx512-bf16");
    EXPECT_EQ(dot.int8, isa == "avx512-bf16" || isa == "avx512-vnni" || isa == "amx");
    EXPECT_EQ(dot.int8_256, isa == "avx-vnni");
    EXPECT_EQ(dot.amx != nullptr, isa == "amx");
  }
  EXPECT_THAT(MakeDevice("cpu").value()->Describe(), HasSubstr(AvailableIsas().back()));
  EXPECT_EQ(AsCpu(*MakeDevice("cpu").value()).pool().threads(), UsableCores());
}

TEST(MakeDeviceTest, NamesWhatIsAvailable) {
  const absl::Status device = MakeDevice("tpu").status();
  EXPECT_EQ(device.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(device.message()), HasSubstr("unknown, must be cpu, reference"));
  const absl::Status isa = MakeDevice("cpu", 1, "mmx").status();
  EXPECT_EQ(isa.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(isa.message()), HasSubstr(AvailableIsas().front()));
  EXPECT_EQ(MakeDevice("cpu", -1).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tvq
