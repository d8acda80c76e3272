#include "kernels/ops/recurrent/gated_delta_rule.h"

#include "kernels/ops/check.h"

namespace tvq {

absl::Status CheckArgs(const Device& device, const GatedDeltaRuleArgs& args) {
  constexpr const char* kOp = "GatedDeltaRule";
  const GatedDeltaShape& shape = args.shape;
  if (shape.key_heads <= 0 || shape.heads <= 0 || shape.key <= 0 || shape.value <= 0 ||
      shape.heads % shape.key_heads != 0) {
    return ArgumentError(kOp, "shape has sizes of 0, or key heads that do not divide its heads");
  }
  const int64_t rows = args.projected.dim(0);
  return FirstError({
      CheckShape(kOp, "projected", args.projected, {rows, shape.projected()}),
      CheckShape(kOp, "convolved", args.convolved, {rows, shape.convolved()}),
      CheckShape(kOp, "rate", args.rate, {shape.heads}),
      CheckShape(kOp, "decay_bias", args.decay_bias, {shape.heads}),
      CheckShape(kOp, "gain", args.gain, {shape.value}),
      CheckShape(kOp, "out", args.out, {rows, shape.heads, shape.value}),
      CheckRecurrent(kOp, device, args.sessions, rows, /*matrix=*/true),
  });
}

}  // namespace tvq
