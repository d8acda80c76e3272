// A device that computes nothing: memory for states alone.
#ifndef TVQ_TESTS_MODELS_HOST_MEMORY_H_
#define TVQ_TESTS_MODELS_HOST_MEMORY_H_

#include <cstdlib>
#include <cstring>
#include <string>

#include "kernels/device/device.h"

namespace tvq {

class HostMemory : public Device {
 public:
  HostMemory() : Device(nullptr) {}
  std::string Describe() const override { return "host memory"; }
  bool host_memory() const override { return true; }
  absl::StatusOr<Buffer> Allocate(size_t bytes) override {
    return Buffer(std::calloc(bytes, 1), bytes, [](void* block) { std::free(block); });
  }
  absl::Status Zero(void* device, size_t bytes) override {
    std::memset(device, 0, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyToHost(void* host, const void* device, size_t bytes) override {
    return CopyWithin(host, device, bytes);
  }
  absl::Status CopyFromHost(void* device, const void* host, size_t bytes) override {
    return CopyWithin(device, host, bytes);
  }
  absl::Status CopyWithin(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
};

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_HOST_MEMORY_H_
