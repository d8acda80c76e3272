// log p(target) = l[target] - max l - log sum_i exp(l[i] - max l), how many ids stand before the
// target, and the best alternatives. Each row of logits l [N, vocab] has a block.
//
// Reads a row, 4 vocab bytes, three times and once more for every alternative, from cache after the
// first; 12 bytes for the target and each alternative and 4 more a row go back to the host.
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/token_logprobs/row_logprobs.cuh"
#include "kernels/ops/token_logprobs.h"

namespace tvq::TVQ_CUDA {
namespace {

__global__ void __launch_bounds__(kRowThreads)
    TokenLogprobsKernel(const float* logits, int64_t vocab, const int32_t* targets, int64_t top,
                        TokenLogprob* target_out, TokenLogprob* top_out, int32_t* finite) {
  RowShared& shared = BlockShared<RowShared>();
  const int64_t n = blockIdx.x;
  const float* row = logits + n * vocab;
  const RowSoftmax softmax = SoftmaxOf(row, vocab, shared);
  if (threadIdx.x == 0) finite[n] = softmax.finite ? 1 : 0;
  if (!softmax.finite) return;
  const TokenLogprob target = LogprobOf(row, vocab, targets[n], softmax, shared);
  if (threadIdx.x == 0) target_out[n] = target;
  TopLogprobs(row, vocab, top, softmax, shared, top_out + n * top);
}

}  // namespace

absl::Status CudaTokenLogprobs(Device& device, const TokenLogprobsArgs& args) {
  const int64_t rows = args.logits.dim(0), vocab = args.logits.dim(1);
  if (rows == 0) return absl::OkStatus();
  CudaDevice& cuda = AsCuda(device);
  absl::StatusOr<int32_t*> targets = cuda.Scratch<int32_t>(0, 2 * rows);
  if (!targets.ok()) return targets.status();
  absl::StatusOr<TokenLogprob*> results = cuda.Scratch<TokenLogprob>(1, rows * (1 + args.top));
  if (!results.ok()) return results.status();
  int32_t* const finite = *targets + rows;
  absl::Status status = cuda.Send(*targets, args.targets.data(), args.targets.size_bytes());
  if (!status.ok()) return status;
  status =
      Launch("TokenLogprobs", device, {.blocks = rows, .threads = kRowThreads}, TokenLogprobsKernel,
             args.logits.data, vocab, *targets, args.top, *results, *results + rows, finite);
  if (!status.ok()) return status;

  std::vector<int32_t> finite_rows(static_cast<size_t>(rows));
  status = cuda.Receive(finite_rows.data(), finite, finite_rows.size() * sizeof(int32_t));
  if (!status.ok()) return status;
  for (int64_t n = 0; n < rows; ++n) {
    if (finite_rows[static_cast<size_t>(n)] != 0) continue;
    return absl::InternalError(absl::StrCat("TokenLogprobs: logits of row ", n, " are not finite"));
  }
  status = cuda.Receive(args.target_out.data(), *results, args.target_out.size_bytes());
  if (!status.ok()) return status;
  return cuda.Receive(args.top_out.data(), *results + rows, args.top_out.size_bytes());
}

}  // namespace tvq::TVQ_CUDA
