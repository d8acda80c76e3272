#include "kernels/ops/attention/softmax_attention.h"

#include "kernels/ops/attention/page_check.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

// What both ops have: rows of q, position_scores, k, v and out.
template <typename Args>
absl::Status CheckSoftmaxRows(const char* op, const Args& args, int64_t rows) {
  const KeyValueShape& shape = args.shape;
  if (absl::Status s = CheckKeyValueShape(op, shape, args.layer_offset); !s.ok()) return s;
  const int64_t heads = args.q.dim(1);
  const int64_t window = args.position_scores.dim(2);
  return FirstError({
      CheckHeads(op, "q", heads, shape.kv_heads),
      CheckShape(op, "q", args.q, {rows, heads, shape.key}),
      window == 0 ? absl::OkStatus()
                  : CheckShape(op, "position_scores", args.position_scores, {rows, heads, window}),
      CheckShape(op, "k", args.k, {rows, shape.kv_heads, shape.key}),
      CheckShape(op, "v", args.v, {rows, shape.kv_heads, shape.value}),
      CheckShape(op, "out", args.out, {rows, heads, shape.value}),
  });
}

}  // namespace

absl::Status CheckArgs(const Device& device, const SoftmaxDecodeAttentionArgs& args) {
  constexpr const char* kOp = "SoftmaxDecodeAttention";
  const int64_t rows = args.sessions.dim(0);
  absl::Status status = FirstError({
      CheckSoftmaxRows(kOp, args, rows),
      CheckShape(kOp, "sessions", args.sessions, {rows}),
      CheckShape(kOp, "positions", args.positions, {rows}),
  });
  if (!status.ok() || !device.host_memory()) return status;
  for (int64_t n = 0; n < rows && status.ok(); ++n) {
    if (args.sessions.data[n].none()) continue;
    const int64_t position = args.positions.data[n];
    status = CheckPosition(kOp, "a position", position);
    if (status.ok()) status = CheckPages(kOp, args.sessions.data[n], position);
  }
  return status;
}

absl::Status CheckArgs(const Device& device, const SoftmaxPrefillAttentionArgs& args) {
  constexpr const char* kOp = "SoftmaxPrefillAttention";
  const int64_t tokens = args.q.dim(0);
  absl::Status status = FirstError(
      {CheckSoftmaxRows(kOp, args, tokens), CheckPosition(kOp, "position", args.position)});
  if (!status.ok() || !device.host_memory() || tokens == 0) return status;
  return CheckPages(kOp, args.pages, args.position + tokens - 1);
}

}  // namespace tvq
