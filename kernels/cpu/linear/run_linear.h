// The linear that CPU ops contain: prepared rows of x times a packed weight. Its columns go to one
// or several outputs.
#ifndef TVQ_KERNELS_CPU_LINEAR_RUN_LINEAR_H_
#define TVQ_KERNELS_CPU_LINEAR_RUN_LINEAR_H_

#include <span>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/linear/tile.h"

namespace tvq {

// Scratch slots of RunLinear; an op that calls it takes the ones from kFirstFreeSlot on.
inline constexpr size_t kPreparedRowsSlot = 0;
inline constexpr size_t kWidePairsSlot = 1;
inline constexpr size_t kFirstFreeSlot = 2;

struct LinearInput {
  Matrix<const float> x;         // [N, in]
  const float* times = nullptr;  // [N, in] or null: x * times, element by element
  // Called once for each row of x, on any thread, before the row is read; it may write the row.
  absl::FunctionRef<void(int64_t row)> compute_row = ComputedBefore;

  static void ComputedBefore(int64_t) {}
};

void RunLinear(CpuDevice& device, const LinearWeight& weight, const LinearInput& input,
               std::span<const OutputColumns> outputs);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_LINEAR_RUN_LINEAR_H_
