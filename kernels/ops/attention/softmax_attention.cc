#include "kernels/ops/attention/softmax_attention.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

constexpr int64_t kAlignment = 64;

absl::Status CheckKeyValueShape(const char* op, const KeyValueShape& shape, int64_t offset) {
  if (shape.dtype != DType::kFloat32 && shape.dtype != DType::kBFloat16) {
    return ArgumentError(op, absl::StrCat("keys and values are ", Name(shape.dtype),
                                          ", expected float32 or bfloat16"));
  }
  if (shape.kv_heads <= 0 || shape.key <= 0 || shape.value <= 0) {
    return ArgumentError(op,
                         absl::StrCat("shape has ", shape.kv_heads, " key/value heads, ", shape.key,
                                      " keys and ", shape.value, " values, expected each above 0"));
  }
  if (offset < 0 || offset % kAlignment != 0) {
    return ArgumentError(
        op, absl::StrCat("layer_offset is ", offset, ", expected a multiple of ", kAlignment));
  }
  return absl::OkStatus();
}

// `pages` reach position `last`. Reads them: host memory.
absl::Status CheckPages(const char* op, const KeyValuePages& pages, int64_t last) {
  const int64_t needed = last / kKeyValuePage + 1;
  if (pages.pages == nullptr || pages.count < needed) {
    return ArgumentError(
        op, absl::StrCat("position ", last, " lies beyond the session's ",
                         pages.pages == nullptr ? 0 : pages.count, " pages, expected ", needed,
                         " of ", kKeyValuePage, " positions each"));
  }
  for (int64_t p = 0; p < needed; ++p) {
    const void* const page = pages.pages[p];
    if (page == nullptr) return ArgumentError(op, absl::StrCat("page ", p, " is null"));
    if (reinterpret_cast<uintptr_t>(page) % kAlignment != 0) {
      return ArgumentError(
          op, absl::StrCat("page ", p, " does not start at a multiple of ", kAlignment, " bytes"));
    }
  }
  return absl::OkStatus();
}

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
