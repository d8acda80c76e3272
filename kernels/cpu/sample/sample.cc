// A task for each row finds its maximum, computes exponentials and float64 sums of blocks of them,
// and looks up one uniform number in these.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sample/sample.cc"
#include "kernels/ops/sample.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/sample/adjust.h"
#include "kernels/cpu/sample/filter.h"
#include "kernels/cpu/token_logprobs/row-inl.h"
#include "kernels/ops/philox.h"

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {

// The first id at which the running sum of e passes `target`. The sum of a block was added in
// another order than the walk inside it adds: if the target lies between the two results, the
// block's last candidate is taken.
int32_t Find(const float* e, int64_t vocab, const double* block_sums, double target) {
  double sum = 0;
  int64_t first = 0;
  int32_t last = 0;
  for (; first < vocab; first += kExpBlock) {
    const double block = block_sums[first / kExpBlock];
    if (block > 0) last = static_cast<int32_t>(first);
    if (sum + block > target) break;
    sum += block;
  }
  // If the target is past all sums, the last block that holds any candidate is walked; `last` is
  // its first id.
  if (first >= vocab) {
    first = last;
    target = sum;
  }
  for (int64_t i = first; i < std::min(first + kExpBlock, vocab); ++i) {
    if (e[i] == 0) continue;
    last = static_cast<int32_t>(i);
    sum += e[i];
    if (sum > target) break;
  }
  return last;
}

int32_t FindKept(const std::vector<Entry>& kept, double uniform) {
  double total = 0;
  for (const Entry& entry : kept) total += entry.value;
  double sum = 0;
  for (const Entry& entry : kept) {
    sum += entry.value;
    if (sum > uniform * total) return entry.id;
  }
  return kept.back().id;
}

// e, sums: room for [vocab] and a double per block.
int32_t Draw(const SampleRow& row, const float* logits, int64_t vocab, float maximum, float* e,
             double* sums) {
  RowExponentials(logits, vocab, maximum, 1 / row.temperature, e, sums);
  const double uniform = DrawUniform(row.seed, row.sample_index, row.position);
  if (HasFilter(row, vocab)) return FindKept(FilterCandidates(row, e, vocab), uniform);
  double total = 0;
  for (int64_t b = 0; b * kExpBlock < vocab; ++b) total += sums[b];
  return Find(e, vocab, sums, uniform * total);
}

int32_t FirstAt(const float* row, int64_t size, float value) {
  return static_cast<int32_t>(std::find(row, row + size, value) - row);
}

absl::Status SampleOne(const SampleArgs& args, size_t n, float* work, double* sums) {
  const SampleRow& row = args.rows[n];
  const int64_t vocab = args.logits.dim(1);
  const float* raw = args.logits.row(row.logits_row);
  const float raw_maximum = RowMaximum(raw, vocab);
  if (!std::isfinite(raw_maximum)) {
    return absl::InternalError(
        absl::StrCat("Sample: logits of row ", row.logits_row, " are not finite"));
  }
  const float* logits = raw;
  float maximum = raw_maximum;
  if (NeedsAdjustment(row)) {
    AdjustLogits(row, raw, vocab, work);
    logits = work;
    maximum = RowMaximum(work, vocab);
    if (!std::isfinite(maximum)) {
      return absl::InvalidArgumentError(
          absl::StrCat("Sample: no id may be chosen for logits row ", row.logits_row));
    }
  }
  const int32_t id = row.temperature < kGreedyTemperature
                         ? FirstAt(logits, vocab, maximum)
                         : Draw(row, logits, vocab, maximum, work, sums);
  args.chosen[n] = {id, 0, 0};
  if (row.top_logprobs >= 0) {
    RowLogprobs(raw, vocab, raw_maximum, id, args.chosen[n],
                args.top.subspan(n * static_cast<size_t>(args.max_top),
                                 static_cast<size_t>(row.top_logprobs)));
  }
  return absl::OkStatus();
}

void SampleAll(CpuDevice& cpu, const SampleArgs& args) {
  const auto rows = static_cast<int64_t>(args.rows.size());
  const int64_t vocab = args.logits.dim(1);
  const int64_t blocks = (vocab + kExpBlock - 1) / kExpBlock;
  float* work = cpu.Scratch<float>(0, rows * vocab);
  double* sums = cpu.Scratch<double>(1, rows * blocks);
  RunTasks(cpu, rows, rows * vocab * 8, [&](int64_t n) {
    const auto i = static_cast<size_t>(n);
    args.row_status[i] = SampleOne(args, i, work + n * vocab, sums + n * blocks);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {

HWY_EXPORT(SampleAll);

absl::Status CpuSample(Device& device, const SampleArgs& args) {
  HWY_DYNAMIC_DISPATCH(SampleAll)(AsCpu(device), args);
  return absl::OkStatus();
}

}  // namespace tvq
#endif
