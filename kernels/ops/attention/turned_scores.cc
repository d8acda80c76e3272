#include "kernels/ops/attention/turned_scores.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/attention/vq_check.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

absl::Status CheckCommon(const char* op, const TurnedKeys& keys, Tensor<const float, 3> q,
                         Matrix<const int32_t> codes, Tensor<float, 3> out) {
  const VqShape& shape = keys.shape;
  const int64_t rows = q.dim(0), heads = q.dim(1), width = q.dim(2);
  if (width <= 0 || width % 2 != 0) {
    return ArgumentError(
        op, absl::StrCat("q has keys of ", width, " numbers, expected pairs of them to turn"));
  }
  absl::Status status = CheckVqShape(op, shape);
  if (status.ok()) status = CheckHeads(op, "q", heads, shape.kv_heads);
  if (!status.ok()) return status;
  return FirstError({
      CheckShape(op, "codebook", keys.codebook, {shape.kv_heads, shape.codes, width}),
      CheckShape(op, "turns", keys.turns, {shape.window, width}),
      CheckShape(op, "q", q, {rows, heads, width}),
      CheckShape(op, "codes", codes, {rows, shape.kv_heads}),
      CheckShape(op, "out", out, {rows, heads, shape.window}),
  });
}

}  // namespace

absl::Status CheckArgs(const Device& device, const TurnedDecodeScoresArgs& args) {
  constexpr const char* kOp = "TurnedDecodeScores";
  absl::Status status = CheckCommon(kOp, args.keys, args.q, args.codes, args.out);
  if (status.ok()) status = CheckShape(kOp, "states", args.states, {args.q.dim(0)});
  if (status.ok()) status = CheckShape(kOp, "positions", args.positions, {args.q.dim(0)});
  if (status.ok() && device.host_memory()) {
    status = CheckVqSessions(kOp, args.keys.shape, args.states, args.positions);
    if (status.ok()) status = CheckVqCodes(kOp, args.codes, args.keys.shape.codes);
  }
  return status;
}

absl::Status CheckArgs(const Device& device, const TurnedPrefillScoresArgs& args) {
  constexpr const char* kOp = "TurnedPrefillScores";
  absl::Status status = CheckCommon(kOp, args.keys, args.q, args.codes, args.out);
  if (status.ok()) status = CheckVqState(kOp, "state", args.keys.shape, args.state);
  if (status.ok()) status = CheckPosition(kOp, "position", args.position);
  if (status.ok() && device.host_memory()) {
    status = CheckVqCodes(kOp, args.codes, args.keys.shape.codes);
  }
  return status;
}

}  // namespace tvq
