#include "kernels/ops/token_logprobs.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/check.h"

namespace tvq {

absl::Status CheckArgs(const Device&, const TokenLogprobsArgs& args) {
  constexpr const char* kOp = "TokenLogprobs";
  const int64_t rows = args.logits.dim(0);
  const int64_t vocab = args.logits.dim(1);
  if (args.top < 0 || args.top > vocab) {
    return ArgumentError(kOp, absl::StrCat("top is ", args.top, ", expected 0 to ", vocab));
  }
  return FirstError({
      CheckShape(kOp, "logits", args.logits, args.logits.shape),
      CheckSize(kOp, "targets", args.targets.size(), rows),
      CheckSize(kOp, "target_out", args.target_out.size(), rows),
      CheckSize(kOp, "top_out", args.top_out.size(), rows * args.top),
      CheckIds(kOp, args.targets, vocab),
  });
}

}  // namespace tvq
