#include "kernels/device/device.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cuda/make_device.h"
#include "kernels/host/host_tasks.h"

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

absl::StatusOr<CudaOptions> ParseCudaOptions(std::string_view text) {
  CudaOptions options;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word == "tf32") {
      options.tf32 = true;
    } else if (word == "serial") {
      options.serial = true;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "device 'cuda': '", std::string(word), "' is unknown there; available: tf32, serial"));
    }
  }
  return options;
}

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

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(std::string_view name, int threads,
                                                   std::string_view isa) {
  if (threads < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device threads: ", threads, "; give a number above 0, or 0 for all cores"));
  }
  if (name == "cpu") return MakeCpuDevice(threads, isa);
  if (name == "reference") return MakeReferenceDevice();
  if (name == "cuda") {
    const absl::StatusOr<CudaOptions> options = ParseCudaOptions(isa);
    return options.ok() ? MakeCudaDevice(*options) : options.status();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("device '", std::string(name), "': unknown, must be cpu, reference",
                   HasCuda() ? " or cuda" : ", or cuda in a build with it"));
}

}  // namespace tvq
