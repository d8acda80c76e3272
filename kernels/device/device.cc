#include "kernels/device/device.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/host/host_tasks.h"

namespace tvq {
namespace {

// A moment on a device whose operations are complete when they return.
class HostTime : public DeviceTime {
 public:
  absl::StatusOr<double> SecondsSince(const DeviceTime& earlier) const override {
    const auto& from = static_cast<const HostTime&>(earlier);
    return std::chrono::duration<double>(time_ - from.time_).count();
  }

 private:
  const std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceTime>> Device::Now() { return std::make_unique<HostTime>(); }

absl::StatusOr<Device::Reusable> Device::AllocateReusable(size_t bytes) {
  absl::StatusOr<Buffer> memory = Allocate(bytes);
  if (!memory.ok()) return memory.status();
  return Reusable{*std::move(memory)};
}

absl::Status Device::Send(void* device, const void* host, size_t bytes) {
  return CopyFromHost(device, host, bytes);
}

absl::Status Device::Receive(void* host, const void* device, size_t bytes) {
  return CopyToHost(host, device, bytes);
}

void Device::RunOnHost(int64_t n, const std::function<void(int64_t)>& task) { OneByOne(n, task); }

absl::StatusOr<std::unique_ptr<Recording>> Device::Record(const std::function<absl::Status()>&) {
  return absl::UnimplementedError(absl::StrCat(Describe(), " records no operations"));
}

}  // namespace tvq
