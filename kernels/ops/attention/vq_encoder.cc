#include "kernels/ops/attention/vq_encoder.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/attention/vq_check.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

absl::Status CheckSums(const char* op, const CodeSumsShape& shape, const CodeSums& sums) {
  if (shape.kv_heads <= 0 || shape.codes <= 0 || shape.value <= 0) {
    return ArgumentError(
        op, absl::StrCat("shape has ", shape.kv_heads, " key/value heads, ", shape.codes,
                         " codes and ", shape.value, " values, expected each above 0"));
  }
  const bool whole = sums.sum != nullptr && sums.carry != nullptr && sums.count != nullptr;
  return whole ? absl::OkStatus() : ArgumentError(op, "sums lack memory");
}

}  // namespace

absl::Status CheckArgs(const Device& device, const VqCollectArgs& args) {
  constexpr const char* kOp = "VqCollect";
  const int64_t tokens = args.codes.dim(0), heads = args.shape.kv_heads;
  const absl::Status status = FirstError(
      {CheckSums(kOp, args.shape, args.sums), CheckShape(kOp, "codes", args.codes, {tokens, heads}),
       CheckShape(kOp, "v", args.v, {tokens, heads, args.shape.value})});
  if (!status.ok() || !device.host_memory()) return status;
  return CheckVqCodes(kOp, args.codes, args.shape.codes);
}

absl::Status CheckArgs(const Device&, const VqEncoderAttentionArgs& args) {
  constexpr const char* kOp = "VqEncoderAttention";
  if (absl::Status s = CheckSums(kOp, args.shape, args.sums); !s.ok()) return s;
  const int64_t tokens = args.code_scores.dim(0), heads = args.code_scores.dim(1);
  return FirstError({
      CheckHeads(kOp, "code_scores", heads, args.shape.kv_heads),
      CheckShape(kOp, "code_scores", args.code_scores, {tokens, heads, args.shape.codes}),
      CheckShape(kOp, "out", args.out, {tokens, heads, args.shape.value}),
  });
}

}  // namespace tvq
