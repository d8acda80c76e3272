// Naive float64: everything sorted, everything summed.
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/sample/adjust.h"
#include "kernels/ops/philox.h"
#include "kernels/ops/sample.h"

namespace tvq {
namespace {

struct Candidate {
  double probability;
  int32_t id;
};

bool Likelier(const Candidate& a, const Candidate& b) {
  return a.probability > b.probability || (a.probability == b.probability && a.id < b.id);
}

// Softmax of logits / temperature, likeliest first; ids that may not be chosen left out.
std::vector<Candidate> Candidates(const std::vector<double>& logits, double temperature) {
  const double maximum = *std::max_element(logits.begin(), logits.end());
  std::vector<Candidate> all;
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double e = std::exp((logits[i] - maximum) / temperature);
    if (e > 0) all.push_back({e, static_cast<int32_t>(i)});
    sum += e;
  }
  for (Candidate& c : all) c.probability /= sum;
  std::sort(all.begin(), all.end(), Likelier);
  return all;
}

void Filter(const SampleRow& row, std::vector<Candidate>& all) {
  const double least = row.min_p * all[0].probability;
  std::erase_if(all, [&](const Candidate& c) { return c.probability < least; });
  if (row.top_k > 0 && static_cast<size_t>(row.top_k) < all.size()) {
    const double kth = all[static_cast<size_t>(row.top_k) - 1].probability;
    std::erase_if(all, [&](const Candidate& c) { return c.probability < kth; });
  }
  if (row.top_p >= 1) return;
  double total = 0;
  for (const Candidate& c : all) total += c.probability;
  double sum = 0;
  size_t kept = 0;
  while (kept < all.size() && (kept == 0 || sum < double{row.top_p} * total)) {
    sum += all[kept++].probability;
  }
  all.resize(kept);
}

int32_t Draw(const SampleRow& row, std::vector<Candidate>& all) {
  std::sort(all.begin(), all.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  double total = 0;
  for (const Candidate& c : all) total += c.probability;
  const double target = DrawUniform(row.seed, row.sample_index, row.position) * total;
  double sum = 0;
  for (const Candidate& c : all) {
    sum += c.probability;
    if (sum > target) return c.id;
  }
  return all.back().id;
}

absl::Status OneRow(Device& device, const SampleArgs& args, size_t n) {
  const SampleRow& row = args.rows[n];
  const int64_t vocab = args.logits.dim(1);
  const Matrix<const float> logits{args.logits.row(row.logits_row), {1, vocab}};
  const auto top = static_cast<size_t>(std::max<int64_t>(0, row.top_logprobs));
  int32_t target = 0;
  TokenLogprobsArgs logprobs{logits,
                             {&target, 1},
                             static_cast<int64_t>(top),
                             args.chosen.subspan(n, 1),
                             args.top.subspan(n * static_cast<size_t>(args.max_top), top)};
  if (!ReferenceTokenLogprobs(device, logprobs).ok()) {
    return absl::InternalError(
        absl::StrCat("Sample: logits of row ", row.logits_row, " are not finite"));
  }
  std::vector<double> adjusted(static_cast<size_t>(vocab));
  AdjustLogits(row, logits.data, vocab, adjusted.data());
  const auto best = std::max_element(adjusted.begin(), adjusted.end());
  if (!std::isfinite(*best)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Sample: no id may be chosen for logits row ", row.logits_row));
  }
  target = static_cast<int32_t>(best - adjusted.begin());
  if (row.temperature >= kGreedyTemperature) {
    std::vector<Candidate> candidates = Candidates(adjusted, row.temperature);
    Filter(row, candidates);
    target = Draw(row, candidates);
  }
  if (row.top_logprobs >= 0) return ReferenceTokenLogprobs(device, logprobs);
  args.chosen[n] = {target, 0, 0};
  return absl::OkStatus();
}

}  // namespace

absl::Status ReferenceSample(Device& device, const SampleArgs& args) {
  for (size_t n = 0; n < args.rows.size(); ++n) args.row_status[n] = OneRow(device, args, n);
  return absl::OkStatus();
}

}  // namespace tvq
