// What decode steps report of the rows that they leave out of states (model.h).
#ifndef TVQ_MODELS_RUNTIME_STACK_ROW_READS_H_
#define TVQ_MODELS_RUNTIME_STACK_ROW_READS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"
#include "models/runtime/model.h"
#include "models/runtime/stack/working_memory.h"

namespace tvq {

// Of all layers of a model that report it.
class RowReads : public ReadCounts {
 public:
  // The device must outlive it. `heads`, `kv_heads`: of each layer.
  RowReads(int64_t heads, int64_t kv_heads, Device& device)
      : heads_(heads), kv_heads_(kv_heads), device_(device) {}

  // A layer that will report what it reads in every step: returns its number among them. Before
  // Reserve.
  int64_t AddLayer() { return layers_++; }

  void Reserve(int64_t rows, WorkingMemory& memory);

  // What the layer of that number reports of `n` rows, behind the layers before it.
  Matrix<float> skipped_mass(int64_t layer, int64_t n) const {
    return {skipped_mass_ + layer * n * heads_, {n, heads_}};
  }
  Tensor<int32_t, 3> row_reads(int64_t layer, int64_t n) const {
    return {row_reads_ + layer * n * kv_heads_ * 2, {n, kv_heads_, 2}};
  }

  // Ahead of a step of `rows` rows, which overwrites the last one's reports.
  absl::Status BeginStep(int64_t rows);
  StateReadTotals totals() const override;

 private:
  // Adds what the last step has read, of rows that are somebody's, unless that was done.
  absl::Status Count() const;

  const int64_t heads_, kv_heads_;
  Device& device_;
  int64_t layers_ = 0;
  float* skipped_mass_ = nullptr;
  int32_t* row_reads_ = nullptr;
  // The last step's reports stay with the device until somebody asks, or the next step begins.
  mutable StateReadTotals totals_;
  mutable int64_t uncounted_rows_ = 0;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_ROW_READS_H_
