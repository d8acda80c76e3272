#include "kernels/ops/attention/vq_attention.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/attention/vq_check.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

absl::Status CheckSkipping(const char* op, const VqDecodeAttentionArgs& args) {
  const bool reports = !args.skipped_mass.empty() || !args.row_reads.empty();
  if (args.skip_mass == 0 && !reports) return absl::OkStatus();
  const bool is_share = args.skip_mass >= 0 && args.skip_mass < 1;
  if (!is_share) {
    return ArgumentError(
        op, absl::StrCat("skip_mass is ", args.skip_mass, ", expected 0 to less than 1"));
  }
  const int64_t rows = args.states.dim(0);
  return FirstError({
      CheckOptional(op, "skipped_mass", args.skipped_mass, {rows, args.code_scores.dim(1)}),
      CheckOptional(op, "row_reads", args.row_reads, {rows, args.shape.kv_heads, 2}),
  });
}

}  // namespace

absl::Status CheckArgs(const Device& device, const VqDecodeAttentionArgs& args) {
  constexpr const char* kOp = "VqDecodeAttention";
  const VqShape& shape = args.shape;
  if (absl::Status status = CheckVqShape(kOp, shape); !status.ok()) return status;
  const int64_t rows = args.states.dim(0);
  const int64_t heads = args.code_scores.dim(1);
  absl::Status status = FirstError({
      CheckHeads(kOp, "code_scores", heads, shape.kv_heads),
      CheckShape(kOp, "states", args.states, {rows}),
      CheckShape(kOp, "positions", args.positions, {rows}),
      CheckShape(kOp, "code_scores", args.code_scores, {rows, heads, shape.codes}),
      CheckShape(kOp, "position_scores", args.position_scores, {rows, heads, shape.window}),
      CheckShape(kOp, "codes", args.codes, {rows, shape.kv_heads}),
      CheckShape(kOp, "v", args.v, {rows, shape.kv_heads, shape.value}),
      CheckShape(kOp, "out", args.out, {rows, heads, shape.value}),
  });
  if (status.ok()) status = CheckSkipping(kOp, args);
  if (!status.ok() || !device.host_memory()) return status;
  status = CheckVqSessions(kOp, shape, args.states, args.positions);
  return status.ok() ? CheckVqCodes(kOp, args.codes, shape.codes) : status;
}

absl::Status CheckArgs(const Device& device, const VqPrefillAttentionArgs& args) {
  constexpr const char* kOp = "VqPrefillAttention";
  const VqShape& shape = args.shape;
  if (absl::Status status = CheckVqShape(kOp, shape); !status.ok()) return status;
  if (args.factors != DType::kFloat32 && args.factors != DType::kBFloat16) {
    return ArgumentError(
        kOp, absl::StrCat("factors are ", Name(args.factors), ", expected float32 or bfloat16"));
  }
  const int64_t tokens = args.code_scores.dim(0);
  const int64_t heads = args.code_scores.dim(1);
  absl::Status status = FirstError({
      CheckVqState(kOp, "state", shape, args.state),
      CheckPosition(kOp, "position", args.position),
      CheckHeads(kOp, "code_scores", heads, shape.kv_heads),
      CheckShape(kOp, "code_scores", args.code_scores, {tokens, heads, shape.codes}),
      CheckShape(kOp, "position_scores", args.position_scores, {tokens, heads, shape.window}),
      CheckShape(kOp, "codes", args.codes, {tokens, shape.kv_heads}),
      CheckShape(kOp, "v", args.v, {tokens, shape.kv_heads, shape.value}),
      CheckShape(kOp, "out", args.out, {tokens, heads, shape.value}),
  });
  if (!status.ok() || !device.host_memory()) return status;
  return CheckVqCodes(kOp, args.codes, shape.codes);
}

absl::Status CheckArgs(const Device&, const VqTakeBackArgs& args) {
  constexpr const char* kOp = "VqTakeBack";
  absl::Status status = CheckVqShape(kOp, args.shape);
  if (!status.ok()) return status;
  status = FirstError({CheckVqState(kOp, "state", args.shape, args.state),
                       CheckPosition(kOp, "position", args.position)});
  if (!status.ok() || args.state.undo != nullptr) return status;
  return ArgumentError(kOp, "state has no undo, expected what the decode step kept");
}

}  // namespace tvq
