// The part of appending a position that changes the window's codes and the counts: one integer
// each, no values.
#ifndef TVQ_KERNELS_CPU_VQ_ATTENTION_WINDOW_H_
#define TVQ_KERNELS_CPU_VQ_ATTENTION_WINDOW_H_

#include "kernels/ops/attention/vq_attention.h"

namespace tvq {

// No code: nothing retires.
inline constexpr int32_t kNoCode = -1;

// Writes the code of `position` into head g's window. Counts and returns the code that leaves the
// window; returns kNoCode while the window is filling.
inline int32_t AppendCode(const VqShape& shape, const VqState& state, int64_t g, int64_t position,
                          int32_t code) {
  int32_t* slot = state.window_code + g * shape.window + position % shape.window;
  int32_t retired = kNoCode;
  if (position >= shape.window) {
    retired = *slot;
    ++state.count[g * shape.codes + retired];
  }
  *slot = code;
  return retired;
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_VQ_ATTENTION_WINDOW_H_
