// Counts, from what decode steps report, the rows of states that they leave out (model.h).
#ifndef TVQ_MODELS_RUNTIME_STACK_ROW_READS_H_
#define TVQ_MODELS_RUNTIME_STACK_ROW_READS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"
#include "models/runtime/model.h"
#include "models/runtime/stack/working_memory.h"

namespace tvq {

// The counts of all layers of a model that report them.
class RowReads : public ReadCounts {
 public:
  // The device must outlive it.
  explicit RowReads(Device& device) : device_(device) {}

  // Adds a layer that will report in every step what it reads. Returns the layer's number among
  // those that report. Call before Reserve.
  int64_t AddLayer(int64_t heads, int64_t kv_heads) {
    const Layer layer{heads, kv_heads, heads_, kv_heads_};
    heads_ += heads;
    kv_heads_ += kv_heads;
    layers_.push_back(layer);
    return std::ssize(layers_) - 1;
  }

  void Reserve(int64_t rows, WorkingMemory& memory);

  // Where the layer of this number writes its reports of `n` rows, behind those of earlier layers.
  Matrix<float> skipped_mass(int64_t layer, int64_t n) const {
    const Layer& of = layers_[static_cast<size_t>(layer)];
    return {skipped_mass_ + of.heads_before * n, {n, of.heads}};
  }
  Tensor<int32_t, 3> row_reads(int64_t layer, int64_t n) const {
    const Layer& of = layers_[static_cast<size_t>(layer)];
    return {row_reads_ + of.kv_heads_before * n * 2, {n, of.kv_heads, 2}};
  }

  // Call before a step of `rows` rows: counts the reports of the last step, which this one
  // overwrites.
  absl::Status BeginStep(int64_t rows);
  StateReadTotals totals() const override;

 private:
  // Adds the last step's reports to the totals, unless that was done. Rows that belong to no
  // session report zeros.
  absl::Status Count() const;

  struct Layer {
    int64_t heads, kv_heads;                // its own
    int64_t heads_before, kv_heads_before;  // those of the layers before it
  };

  Device& device_;
  std::vector<Layer> layers_;
  int64_t heads_ = 0, kv_heads_ = 0;  // of all layers together
  float* skipped_mass_ = nullptr;
  int32_t* row_reads_ = nullptr;
  // The last step's reports stay on the device until totals() is called or the next step begins.
  mutable StateReadTotals totals_;
  mutable int64_t uncounted_rows_ = 0;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_ROW_READS_H_
