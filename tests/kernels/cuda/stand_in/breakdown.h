// A GPU that fails, for tests of what becomes of a server then.
#ifndef TVQ_TESTS_KERNELS_CUDA_STAND_IN_BREAKDOWN_H_
#define TVQ_TESTS_KERNELS_CUDA_STAND_IN_BREAKDOWN_H_

#include <cstdint>

#include "tests/kernels/cuda/stand_in/runtime.h"

namespace tvq::cuda_stand_in {

// Operations are kernels, those of graphs one by one, copies and fills, counted when they are
// carried out. One that fails is not carried out, nor any after it. A GPU tells the error by the
// call that asked for the operation, or not before somebody waits; from then on every call returns
// it, until the process ends, or Repair.
enum class Notice { kAtOnce, kWhenWaitedFor };

// The operation that comes after `operations` more fails. Any thread.
void BreakDown(int64_t operations, Notice notice);
void Repair();

// Operations carried out since the process began.
int64_t OperationsDone();

// For the runtime. Whether the next operation is carried out.
bool BeginOperation();
// What a call returns that does not wait, and one that does.
cudaError_t ErrorOfCall();
cudaError_t ErrorOfWait();

}  // namespace tvq::cuda_stand_in

#endif  // TVQ_TESTS_KERNELS_CUDA_STAND_IN_BREAKDOWN_H_
