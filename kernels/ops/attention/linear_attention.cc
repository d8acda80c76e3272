#include "kernels/ops/attention/linear_attention.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

absl::Status CheckLinearShape(const char* op, const LinearShape& shape) {
  if (shape.kv_heads > 0 && shape.features > 0 && shape.value > 0) return absl::OkStatus();
  return ArgumentError(
      op, absl::StrCat("shape has ", shape.kv_heads, " key/value heads, ", shape.features,
                       " features and ", shape.value, " values, expected each above 0"));
}

absl::Status CheckState(const char* op, const char* argument, const LinearState& state) {
  if (state.key_value_sum != nullptr && state.key_value_carry != nullptr &&
      state.key_sum != nullptr && state.key_carry != nullptr) {
    return absl::OkStatus();
  }
  return ArgumentError(op, absl::StrCat(argument, " lacks memory"));
}

// What both ops have: rows of q, k, v and out.
template <typename Args>
absl::Status CheckLinearRows(const char* op, const Args& args, int64_t rows) {
  const LinearShape& shape = args.shape;
  if (absl::Status status = CheckLinearShape(op, shape); !status.ok()) return status;
  const int64_t heads = args.q.dim(1);
  return FirstError({
      CheckHeads(op, "q", heads, shape.kv_heads),
      CheckShape(op, "q", args.q, {rows, heads, shape.features}),
      CheckShape(op, "k", args.k, {rows, shape.kv_heads, shape.features}),
      CheckShape(op, "v", args.v, {rows, shape.kv_heads, shape.value}),
      CheckShape(op, "out", args.out, {rows, heads, shape.value}),
  });
}

}  // namespace

absl::Status CheckArgs(const Device& device, const LinearDecodeAttentionArgs& args) {
  constexpr const char* kOp = "LinearDecodeAttention";
  const int64_t rows = args.states.dim(0);
  absl::Status status = FirstError(
      {CheckLinearRows(kOp, args, rows), CheckShape(kOp, "states", args.states, {rows})});
  if (!status.ok() || !device.host_memory()) return status;
  for (int64_t n = 0; n < rows && status.ok(); ++n) {
    if (!args.states.data[n].none()) status = CheckState(kOp, "a state", args.states.data[n]);
  }
  return status;
}

absl::Status CheckArgs(const Device&, const LinearPrefillAttentionArgs& args) {
  constexpr const char* kOp = "LinearPrefillAttention";
  return FirstError({CheckLinearRows(kOp, args, args.q.dim(0)),
                     CheckState(kOp, "state", args.state),
                     CheckPosition(kOp, "position", args.position)});
}

}  // namespace tvq
