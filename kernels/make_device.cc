// Makes each device that there is: MakeDevice of kernels/device/device.h.
#include "kernels/cuda/make_device.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/device/device.h"

namespace tvq {
namespace {

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
