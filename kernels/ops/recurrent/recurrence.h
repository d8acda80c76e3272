// What the ops of recurrent layers share. Such a layer keeps a matrix for each head, which every
// position multiplies and adds to. Per head, S [K, V] in float32, zero for a new session:
//
//   S_t = diag(w_t) S_(t-1) - b_t (a_t^T S_(t-1)) + k_t v_t^T      y_t = S_t^T q_t
//
// The ops differ in how they make w, a, b, k, v and q, and in what they do with y (Yang et al.
// 2024, Gated DeltaNet, and Peng et al. 2025, RWKV-7, have this form of the recurrence).
//
// A position's bits depend on the positions before it alone, not on how many are computed at once:
// a prompt in chunks of any size has the bits of one that is fed token by token.
#ifndef TVQ_KERNELS_OPS_RECURRENT_RECURRENCE_H_
#define TVQ_KERNELS_OPS_RECURRENT_RECURRENCE_H_

#include <string_view>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"

namespace tvq {

// One session's state in one layer, zero for a new session.
struct RecurrentState {
  float* matrix = nullptr;  // [H, K, V]; null in layers that have none
  float* inputs = nullptr;  // [R, C], the last R inputs, the oldest first
  // Where a step first copies what it is about to change, so that the step can be taken back; null:
  // nowhere.
  float* kept_matrix = nullptr;
  float* kept_inputs = nullptr;

  // True for the state of no session: all pointers are null.
  constexpr bool none() const { return inputs == nullptr; }
};

// Whose positions the N rows of a call are.
struct RecurrentRows {
  // In decode, the state of each row [N]. Rows of the same state lie next to one another, in order
  // of position, and only on devices that compute in host memory. A row whose state is none fills
  // up the batch: what is computed for it is zero.
  Vector<const RecurrentState> states;
  // In prefill, where `states` is empty: all rows are consecutive positions of this state.
  RecurrentState state;

  bool prefill() const { return states.empty(); }
};

// Checks that there is a state for each of the `rows` rows, or one for all. Each must have inputs,
// and a matrix if `matrix` is true.
absl::Status CheckRecurrent(std::string_view op, const Device& device,
                            const RecurrentRows& sessions, int64_t rows, bool matrix);

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_RECURRENT_RECURRENCE_H_
