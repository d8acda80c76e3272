#include "kernels/ops/recurrent/mamba_scan.h"

#include "kernels/ops/check.h"

namespace tvq {

absl::Status CheckArgs(const Device& device, const MambaScanArgs& args) {
  constexpr const char* kOp = "MambaScan";
  const MambaShape& shape = args.shape;
  if (shape.groups <= 0 || shape.heads <= 0 || shape.key <= 0 || shape.value <= 0 ||
      shape.heads % shape.groups != 0) {
    return ArgumentError(kOp, "shape has sizes of 0, or groups that do not divide its heads");
  }
  const int64_t rows = args.projected.dim(0);
  return FirstError({
      CheckShape(kOp, "projected", args.projected, {rows, shape.projected()}),
      CheckShape(kOp, "convolved", args.convolved, {rows, shape.convolved()}),
      CheckShape(kOp, "rate", args.rate, {shape.heads}),
      CheckShape(kOp, "step_bias", args.step_bias, {shape.heads}),
      CheckShape(kOp, "skip", args.skip, {shape.heads}),
      CheckShape(kOp, "out", args.out, {rows, shape.heads, shape.value}),
      CheckRecurrent(kOp, device, args.sessions, rows, /*matrix=*/true),
  });
}

}  // namespace tvq
