// Naive float64 loops.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/ops/token_logprobs.h"

namespace tvq {
namespace {

absl::Status OneRow(const TokenLogprobsArgs& args, int64_t n) {
  const int64_t vocab = args.logits.dim(1);
  const float* row = args.logits.row(n);
  const float maximum = *std::max_element(row, row + vocab);
  double sum = 0;
  for (int64_t i = 0; i < vocab; ++i) sum += std::exp(double(row[i]) - maximum);
  if (!std::isfinite(sum)) {
    return absl::InternalError(absl::StrCat("TokenLogprobs: logits of row ", n, " are not finite"));
  }
  std::vector<int32_t> order(static_cast<size_t>(vocab));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [row](int32_t a, int32_t b) { return row[a] > row[b]; });
  const auto at_rank = [&](int64_t i) {
    const int32_t id = order[static_cast<size_t>(i)];
    return TokenLogprob{id, static_cast<float>(double(row[id]) - maximum - std::log(sum)),
                        static_cast<int32_t>(i + 1)};
  };
  const auto target = std::find(order.begin(), order.end(), args.targets[static_cast<size_t>(n)]);
  args.target_out[static_cast<size_t>(n)] = at_rank(target - order.begin());
  for (int64_t i = 0; i < args.top; ++i) {
    args.top_out[static_cast<size_t>(n * args.top + i)] = at_rank(i);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReferenceTokenLogprobs(Device&, const TokenLogprobsArgs& args) {
  absl::Status status;
  for (int64_t n = 0; n < args.logits.dim(0); ++n) status.Update(OneRow(args, n));
  return status;
}

}  // namespace tvq
