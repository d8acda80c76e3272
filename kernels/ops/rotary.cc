#include "kernels/ops/rotary.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/check.h"

namespace tvq {

absl::Status CheckArgs(const Device&, const RotaryAnglesArgs& args) {
  constexpr const char* kOp = "RotaryAngles";
  const int64_t rows = args.positions.dim(0), half = args.frequencies.dim(0);
  return FirstError({
      CheckShape(kOp, "positions", args.positions, {rows}),
      CheckShape(kOp, "frequencies", args.frequencies, {half}),
      CheckShape(kOp, "out", args.out, {rows, 2 * half}),
  });
}

absl::Status CheckArgs(const Device&, const RotaryHeadsArgs& args) {
  constexpr const char* kOp = "RotaryHeads";
  const auto [rows, heads, key] = args.q.shape;
  const int64_t kv_heads = args.k.dim(1), value = args.v.dim(2), turned = args.angles.dim(1);
  if (turned > key || turned % 2 != 0) {
    return ArgumentError(
        kOp, absl::StrCat("angles has ", turned, " columns, expected an even number up to the ",
                          key, " of a head"));
  }
  return FirstError({
      CheckShape(kOp, "projected", args.projected,
                 {rows, (heads + kv_heads) * key + kv_heads * value}),
      CheckOptional(kOp, "q_gain", args.q_gain, {key}),
      CheckOptional(kOp, "k_gain", args.k_gain, {key}),
      CheckShape(kOp, "angles", args.angles, {rows, turned}),
      CheckShape(kOp, "q", args.q, {rows, heads, key}),
      CheckShape(kOp, "k", args.k, {rows, kv_heads, key}),
      CheckShape(kOp, "v", args.v, {rows, kv_heads, value}),
  });
}

}  // namespace tvq
