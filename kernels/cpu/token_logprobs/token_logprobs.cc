// A task per row: three passes over it (maximum; sum of exponentials; rank and the best).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/token_logprobs/token_logprobs.cc"
#include "kernels/ops/token_logprobs.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/token_logprobs/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

absl::Status TokenLogprobsAll(CpuDevice& cpu, const TokenLogprobsArgs& args) {
  const int64_t rows = args.logits.dim(0);
  const int64_t vocab = args.logits.dim(1);
  const auto top = static_cast<size_t>(args.top);
  uint8_t* finite = cpu.Scratch<uint8_t>(0, rows);
  RunTasks(cpu, rows, rows * vocab * 8, [&](int64_t n) {
    const float* row = args.logits.row(n);
    const float maximum = RowMaximum(row, vocab);
    finite[n] = std::isfinite(maximum);
    if (!finite[n]) return;
    const auto i = static_cast<size_t>(n);
    RowLogprobs(row, vocab, maximum, args.targets[i], args.target_out[i],
                args.top_out.subspan(i * top, top));
  });
  const int64_t bad = std::find(finite, finite + rows, 0) - finite;
  if (bad == rows) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("TokenLogprobs: logits of row ", bad, " are not finite"));
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(TokenLogprobsAll);

absl::Status CpuTokenLogprobs(Device& device, const TokenLogprobsArgs& args) {
  return HWY_DYNAMIC_DISPATCH(TokenLogprobsAll)(AsCpu(device), args);
}

}  // namespace tvq
#endif
