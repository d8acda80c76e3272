#include "kernels/ops/rms_norm.h"

#include "kernels/device/backend.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

constexpr const char* kRmsNorm = "RmsNorm";

absl::Status Check(const RmsNormArgs& args) {
  const int64_t rows = args.x.dim(0);
  const int64_t width = args.x.dim(1);
  return FirstError({
      CheckShape(kRmsNorm, "x", args.x, {rows, width}),
      CheckOptional(kRmsNorm, "gain", args.gain, {width}),
      CheckOptional(kRmsNorm, "bias", args.bias, {width}),
      CheckShape(kRmsNorm, "out", args.out, {rows, width}),
  });
}

}  // namespace

absl::Status RmsNorm(Device& device, const RmsNormArgs& args) {
  if (absl::Status status = Check(args); !status.ok()) return status;
  const Backend& backend = device.functions();
  if (backend.rms_norm == nullptr) return MissingOp(kRmsNorm, backend.name);
  return backend.rms_norm(device, args);
}

}  // namespace tvq
