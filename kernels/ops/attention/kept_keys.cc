#include "kernels/ops/attention/kept_keys.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/attention/page_check.h"
#include "kernels/ops/check.h"

namespace tvq {

absl::Status CheckArgs(const Device& device, const KeptKeysArgs& args) {
  constexpr const char* kOp = "KeptKeys";
  const KeyValueShape& shape = args.shape;
  if (absl::Status s = CheckKeyValueShape(kOp, shape, args.layer_offset); !s.ok()) return s;
  const auto [rows, heads, key] = args.q.shape;
  if (shape.key != 2 * key) {
    return ArgumentError(kOp, absl::StrCat("shape has keys of ", shape.key, " numbers, expected ",
                                           2 * key, ", twice as many as q has"));
  }
  const int64_t window = args.position_scores.dim(2);
  absl::Status status = FirstError({
      CheckHeads(kOp, "q", heads, shape.kv_heads),
      CheckOptional(kOp, "sessions", args.sessions, {rows}),
      CheckShape(kOp, "positions", args.positions, {rows}),
      CheckShape(kOp, "q", args.q, {rows, heads, key}),
      CheckShape(kOp, "q_far", args.q_far, {rows, heads, key}),
      CheckShape(kOp, "k", args.k, {rows, shape.kv_heads, key}),
      CheckShape(kOp, "k_plain", args.k_plain, {rows, shape.kv_heads, key}),
      CheckShape(kOp, "page_q", args.page_q, {rows, heads, shape.key}),
      CheckShape(kOp, "page_k", args.page_k, {rows, shape.kv_heads, shape.key}),
      CheckShape(kOp, "position_scores", args.position_scores, {rows, heads, window}),
  });
  if (!status.ok() || !device.host_memory()) return status;
  for (int64_t n = 0; n < rows && status.ok(); ++n) {
    const KeyValuePages& pages = args.sessions.empty() ? args.pages : args.sessions.data[n];
    if (!args.sessions.empty() && pages.none()) continue;
    const int64_t position = args.positions.data[n];
    status = CheckPosition(kOp, "a position", position);
    if (status.ok()) status = CheckPages(kOp, pages, position);
  }
  return status;
}

}  // namespace tvq
