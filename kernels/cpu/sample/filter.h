// min_p, top_k and top_p over the exponentials of a row, without sorting what cannot be kept.
#ifndef TVQ_KERNELS_CPU_SAMPLE_FILTER_H_
#define TVQ_KERNELS_CPU_SAMPLE_FILTER_H_

#include <cstdint>
#include <vector>

#include "kernels/cpu/token_logprobs/entry.h"
#include "kernels/ops/sample.h"

namespace tvq {

bool HasFilter(const SampleRow& row, int64_t vocab);

// Ids that remain, in increasing order, with their exponentials. e [vocab]: exp(logit - maximum),
// the largest is 1.
std::vector<Entry> FilterCandidates(const SampleRow& row, const float* e, int64_t vocab);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_SAMPLE_FILTER_H_
