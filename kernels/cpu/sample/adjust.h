// The part of sampling that touches single ids: filters, biases and penalties, in the order of
// ops/sample.h. Shared by the backends: T is the type they compute in.
#ifndef TVQ_KERNELS_CPU_SAMPLE_ADJUST_H_
#define TVQ_KERNELS_CPU_SAMPLE_ADJUST_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/ops/sample.h"

namespace tvq {

inline bool NeedsAdjustment(const SampleRow& row) {
  return !row.allowed_ids.empty() || !row.mask.empty() || !row.banned_ids.empty() ||
         !row.logit_bias.empty() || (HasPenalty(row) && !row.counts.empty());
}

// adjusted [vocab] = what the row's temperature is applied to. Biases of one id add up.
template <typename T>
void AdjustLogits(const SampleRow& row, const float* logits, int64_t vocab, T* adjusted) {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  if (row.allowed_ids.empty()) {
    std::copy_n(logits, vocab, adjusted);
  } else {
    std::fill_n(adjusted, vocab, kNever);
    for (const int32_t id : row.allowed_ids) adjusted[id] = logits[id];
  }
  if (!row.mask.empty()) {
    for (int64_t id = 0; id < vocab; ++id) {
      if (!MaskHas(row.mask, id)) adjusted[id] = kNever;
    }
  }
  for (const int32_t id : row.banned_ids) adjusted[id] = kNever;
  for (const LogitBias& bias : row.logit_bias) adjusted[bias.id] += bias.bias;
  if (!HasPenalty(row)) return;
  for (const TokenCount& count : row.counts) {
    T& logit = adjusted[count.id];
    if (count.in_prompt + count.in_output > 0) {
      const T penalty = row.repetition_penalty;
      logit = logit > 0 ? logit / penalty : logit * penalty;
    }
    logit -= row.frequency_penalty * static_cast<T>(count.in_output);
    if (count.in_output > 0) logit -= row.presence_penalty;
  }
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_SAMPLE_ADJUST_H_
