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

namespace tvq {

// A device under test: the CPU with each instruction set.
struct DeviceCase {
  std::string name;
  std::string variant;
};

inline std::vector<DeviceCase> AllDevices() {
  std::vector<DeviceCase> cases;
  for (const std::string& isa : AvailableIsas()) cases.push_back({"cpu", isa});
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
  auto device = MakeDevice(name, threads, variant);
  EXPECT_TRUE(device.ok()) << device.status().ToString();
  return *std::move(device);
}

inline std::unique_ptr<Device> MakeTestDevice(const DeviceCase& device, int threads = 2) {
  return MakeTestDevice(device.name, device.variant, threads);
}

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_TEST_DEVICES_H_
