// Whose rows a call has (kernels/ops/recurrent/recurrence.h), for a kernel.
#ifndef TVQ_KERNELS_CUDA_RECURRENT_SESSIONS_CUH_
#define TVQ_KERNELS_CUDA_RECURRENT_SESSIONS_CUH_

#include "kernels/cuda/common/kernel.cuh"
#include "kernels/ops/recurrent/recurrence.h"

namespace tvq::TVQ_CUDA {

struct Sessions {
  explicit Sessions(const RecurrentRows& rows) : states(rows.states.data), state(rows.state) {}

  bool prefill() const { return states == nullptr; }
  __device__ RecurrentState Of(int64_t row) const {
    return states == nullptr ? state : states[row];
  }

  const RecurrentState* states;  // of rows; null in prefill
  RecurrentState state;
};

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_RECURRENT_SESSIONS_CUH_
