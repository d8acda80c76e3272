#include "kernels/ops/attention/ring_scores.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/attention/vq_check.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

absl::Status CheckRows(const char* op, const VqShape& shape, const RingRows& rows) {
  absl::Status status = CheckVqShape(op, shape);
  if (!status.ok()) return status;
  if (shape.key <= 0 || shape.window % kRingStep != 0) {
    return ArgumentError(
        op, absl::StrCat("shape has a window of ", shape.window, " and keys of ", shape.key,
                         " numbers, expected a multiple of ", kRingStep, " and above 0"));
  }
  const int64_t count = rows.q.dim(0), heads = rows.q.dim(1);
  if (status = CheckHeads(op, "q", heads, shape.kv_heads); !status.ok()) return status;
  return FirstError({
      CheckShape(op, "bias", rows.bias, {heads}),
      CheckShape(op, "q", rows.q, {count, heads, shape.key}),
      CheckShape(op, "q_sink", rows.q_sink, {count, heads, shape.key}),
      CheckShape(op, "k", rows.k, {count, shape.kv_heads, shape.key}),
      CheckShape(op, "k_plain", rows.k_plain, {count, shape.kv_heads, shape.key}),
      CheckShape(op, "codes", rows.codes, {count, shape.kv_heads}),
      CheckShape(op, "code_scores", rows.code_scores, {count, heads, shape.codes}),
      CheckShape(op, "position_scores", rows.position_scores, {count, heads, shape.window}),
  });
}

}  // namespace

absl::Status CheckArgs(const Device& device, const RingDecodeScoresArgs& args) {
  constexpr const char* kOp = "RingDecodeScores";
  absl::Status status = CheckRows(kOp, args.shape, args.rows);
  if (status.ok()) status = CheckShape(kOp, "states", args.states, {args.rows.q.dim(0)});
  if (status.ok()) status = CheckShape(kOp, "positions", args.positions, {args.rows.q.dim(0)});
  if (status.ok() && device.host_memory()) {
    status = CheckVqSessions(kOp, args.shape, args.states, args.positions);
    if (status.ok()) status = CheckVqCodes(kOp, args.rows.codes, args.shape.codes);
  }
  return status;
}

absl::Status CheckArgs(const Device& device, const RingPrefillScoresArgs& args) {
  constexpr const char* kOp = "RingPrefillScores";
  absl::Status status = CheckRows(kOp, args.shape, args.rows);
  if (status.ok()) status = CheckVqState(kOp, "state", args.shape, args.state);
  if (status.ok()) status = CheckPosition(kOp, "position", args.position);
  if (status.ok() && device.host_memory()) {
    status = CheckVqCodes(kOp, args.rows.codes, args.shape.codes);
  }
  return status;
}

}  // namespace tvq
