// Checks of arguments that the ops on VQ states share.
#ifndef TVQ_KERNELS_OPS_ATTENTION_VQ_CHECK_H_
#define TVQ_KERNELS_OPS_ATTENTION_VQ_CHECK_H_

#include "absl/status/status.h"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq {

absl::Status CheckVqShape(const char* op, const VqShape& shape);

// "VqDecodeAttention: state lacks memory".
absl::Status CheckVqState(const char* op, const char* argument, const VqShape& shape,
                          const VqState& state);

// Every code lies in [0, limit): "VqDecodeAttention: codes[3,0] is 17, expected 0 to 15". For host
// memory only.
absl::Status CheckVqCodes(const char* op, Matrix<const int32_t> codes, int64_t limit);

// Checks all states that are not none, and their positions, which must be consecutive where rows of
// one state follow one another. For host memory only.
absl::Status CheckVqSessions(const char* op, const VqShape& shape, Vector<const VqState> states,
                             Vector<const int64_t> positions);

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_ATTENTION_VQ_CHECK_H_
