// An entry of a row of logits, and the order of entries.
#ifndef TVQ_KERNELS_CPU_TOKEN_LOGPROBS_ENTRY_H_
#define TVQ_KERNELS_CPU_TOKEN_LOGPROBS_ENTRY_H_

#include <cstdint>

#include "kernels/ops/token_logprobs.h"

namespace tvq {

struct Entry {
  float value = 0;
  int32_t id = 0;
};

// The larger value first; the lower id on a tie.
inline bool Before(const Entry& a, const Entry& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

// Exponentials are summed in float32 within blocks of this many entries, and in float64 from block
// to block.
inline constexpr int64_t kExpBlock = 1024;

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_TOKEN_LOGPROBS_ENTRY_H_
