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

absl::Status CheckArgs(const Device&, const PositionRowsArgs& args) {
  constexpr const char* kOp = "PositionRows";
  const int64_t rows = args.positions.dim(0), columns = args.table.dim(1);
  if (args.table.dim(0) == 0) return ArgumentError(kOp, "table has no rows");
  return FirstError({
      CheckShape(kOp, "positions", args.positions, {rows}),
      CheckShape(kOp, "table", args.table, args.table.shape),
      CheckShape(kOp, "out", args.out, {rows, columns}),
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
  const int64_t columns = (heads + kv_heads) * key + kv_heads * value;
  if (args.column < 0 || args.column + columns > args.projected.dim(1)) {
    return ArgumentError(
        kOp, absl::StrCat("projected has ", args.projected.dim(1), " columns, expected at least ",
                          columns, " from ", args.column, " on"));
  }
  // The arguments for far keys are given all or not at all, and so are those for the sink.
  const int64_t far = args.far_angles.empty() ? 0 : 1, sink = args.sink_angles.empty() ? 0 : far;
  return FirstError({
      CheckShape(kOp, "projected", args.projected, {rows, args.projected.dim(1)}),
      CheckOptional(kOp, "q_gain", args.q_gain, {key}),
      CheckOptional(kOp, "k_gain", args.k_gain, {key}),
      CheckShape(kOp, "angles", args.angles, {rows, turned}),
      CheckShape(kOp, "q", args.q, {rows, heads, key}),
      CheckShape(kOp, "k", args.k, {rows, kv_heads, key}),
      CheckShape(kOp, "v", args.v, {rows, kv_heads, value}),
      CheckOptional(kOp, "far_angles", args.far_angles, {rows, turned}),
      CheckShape(kOp, "sink_angles", args.sink_angles, {sink * turned}),
      CheckShape(kOp, "q_far", args.q_far, {far * rows, far * heads, far * key}),
      CheckShape(kOp, "q_sink", args.q_sink, {sink * rows, sink * heads, sink * key}),
      CheckShape(kOp, "k_plain", args.k_plain, {far * rows, far * kv_heads, far * key}),
  });
}

}  // namespace tvq
