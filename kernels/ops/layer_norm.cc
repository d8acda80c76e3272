#include "kernels/ops/layer_norm.h"

#include "kernels/device/backend.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

constexpr const char* kLayerNorm = "LayerNorm";

absl::Status Check(const LayerNormArgs& args) {
  const int64_t rows = args.x.dim(0);
  const int64_t width = args.x.dim(1);
  return FirstError({
      CheckShape(kLayerNorm, "x", args.x, {rows, width}),
      CheckOptional(kLayerNorm, "gain", args.gain, {width}),
      CheckOptional(kLayerNorm, "bias", args.bias, {width}),
      CheckShape(kLayerNorm, "out", args.out, {rows, width}),
  });
}

}  // namespace

absl::Status LayerNorm(Device& device, const LayerNormArgs& args) {
  if (absl::Status status = Check(args); !status.ok()) return status;
  const Backend& backend = device.functions();
  if (backend.layer_norm == nullptr) return MissingOp(kLayerNorm, backend.name);
  return backend.layer_norm(device, args);
}

}  // namespace tvq
