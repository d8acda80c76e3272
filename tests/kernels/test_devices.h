// The devices that conformance tests run on.
#ifndef TVQ_TESTS_KERNELS_TEST_DEVICES_H_
#define TVQ_TESTS_KERNELS_TEST_DEVICES_H_

#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "tests/kernels/cpu/amx_stand_in.h"
#include "tests/kernels/cuda/stand_in/make_device.h"

namespace tvq {

// A device under test: the CPU with each instruction set; the CUDA kernels on the CPU, the threads
// of a block in different orders; a GPU.
struct DeviceCase {
  std::string name;
  std::string variant;
};

// Of the CUDA kernels on the CPU the orders of threads that are not shuffled: in them runs only a
// part of what takes long.
inline bool InPlainOrder(const DeviceCase& device) {
  return device.name == "cuda_stand_in" && device.variant != "shuffled";
}

inline std::vector<DeviceCase> AllDevices() {
  std::vector<DeviceCase> cases;
  for (const std::string& isa : AvailableIsas()) cases.push_back({"cpu", isa});
  for (const char* order : {"forwards", "backwards", "shuffled"}) {
    cases.push_back({"cuda_stand_in", order});
  }
  cases.push_back({"cuda", ""});
  return cases;
}

// For ops with linears, also the CPU with AMX in software.
inline const DeviceCase kAmxStandIn{"cpu", "amx-stand-in"};
inline std::vector<DeviceCase> LinearDevices() {
  std::vector<DeviceCase> cases = AllDevices();
  cases.push_back(kAmxStandIn);
  return cases;
}

// A name of the letters that GoogleTest allows.
inline std::string NameOf(const DeviceCase& device) {
  std::string name = device.name + device.variant;
  std::erase(name, '-');
  return name;
}
inline void PrintTo(const DeviceCase& device, std::ostream* out) { *out << NameOf(device); }

inline std::unique_ptr<Device> MakeTestDevice(std::string_view name, std::string_view variant = "",
                                              int threads = 2) {
  if (name == "cuda_stand_in") return MakeCudaStandIn(variant);
  if (variant == kAmxStandIn.variant) return MakeAmxStandIn(threads);
  auto device = MakeDevice(name, threads, variant);
  EXPECT_TRUE(device.ok()) << device.status().ToString();
  return *std::move(device);
}

inline std::unique_ptr<Device> MakeTestDevice(const DeviceCase& device, int threads = 2) {
  return MakeTestDevice(device.name, device.variant, threads);
}

// Skips the test, saying why, when its device is a GPU and there is none.
#define TVQ_SKIP_WITHOUT_DEVICE(device_case)                \
  if ((device_case).name == "cuda") {                       \
    if (const auto made = MakeDevice("cuda"); !made.ok()) { \
      GTEST_SKIP() << made.status().ToString();             \
    }                                                       \
  }                                                         \
  static_assert(true)

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_TEST_DEVICES_H_
