#include "kernels/device.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cuda/make_device.h"

namespace tvq {
namespace {

// Of a device whose operations are complete when they return.
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

absl::StatusOr<std::unique_ptr<Recording>> Device::Record(const std::function<absl::Status()>&) {
  return absl::UnimplementedError(absl::StrCat(Describe(), " records no operations"));
}

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(std::string_view name, int threads,
                                                   std::string_view isa) {
  if (threads < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device threads: ", threads, "; give a number above 0, or 0 for all cores"));
  }
  if (name == "cpu") return MakeCpuDevice(threads, isa);
  if (name == "reference") return MakeReferenceDevice();
  if (name == "cuda") {
    if (isa.empty() || isa == "tf32") return MakeCudaDevice(isa == "tf32");
    return absl::InvalidArgumentError(
        absl::StrCat("device 'cuda': '", std::string(isa), "' is unknown there; available: tf32"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("device '", std::string(name), "': unknown; available: cpu, cuda, reference"));
}

}  // namespace tvq
