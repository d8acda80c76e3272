// Attention over codes and recent positions whose scores are given: what a layer keeps of a session
// for it, its prefill and decode steps, and how drafts are taken back.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_ATTENTION_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_ATTENTION_H_

#include <memory>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/ops/attention/vq_attention.h"
#include "models/runtime/layers/attention/vq/parts.h"
#include "models/runtime/model.h"
#include "models/runtime/stack/layer.h"
#include "models/runtime/stack/row_reads.h"

namespace tvq {

// The n rows of a call.
struct VqRows {
  Tensor<const float, 3> code_scores;      // [n, H, S]
  Tensor<const float, 3> position_scores;  // [n, H, W]
  Matrix<const int32_t> codes;             // [n, G]
  Tensor<const float, 3> v;                // [n, G, V]
  Tensor<float, 3> out;                    // [n, H, V]
};

class VqAttention : private LayerUndo {
 public:
  // With `heads` query heads. Counts of what decode reads go to `row_reads`, unless that is null.
  // The device must outlive it.
  VqAttention(const VqShape& shape, int64_t heads, Device& device, float skip_mass,
              int64_t draft_rows, std::shared_ptr<RowReads> row_reads);

  void Load(const WeightLoader& loader);
  void Reserve(WorkingMemory& memory) { memory.Keep(&undo_, draft_rows_ * undo_words()); }

  const VqParts& parts() const { return parts_; }
  const VqShape& shape() const { return parts_.shape(); }
  void View(const PartMemory& memory, std::byte* view) const;

  absl::Status Prefill(const LayerState& state, const VqRows& rows);
  absl::Status Decode(const RowStates& states, const VqRows& rows);

  LayerRounding rounding() const {
    return {.kept = 1, .factors = 2};  // softmax weights, rows of values
  }
  LayerUndo* undo() { return draft_rows_ > 0 ? this : nullptr; }

 private:
  int64_t rows() const override { return draft_rows_; }
  void ViewDraft(int64_t draft, std::byte* view) const override;
  absl::Status TakeBack(const PartMemory& memory, int64_t position, int64_t draft) override;

  // Where a draft's step saves what it overwrites in a state.
  void* Undo(int64_t draft) const { return undo_ + draft * undo_words(); }
  int64_t undo_words() const { return Aligned(VqUndoBytes(parts_.shape())) / 4; }

  Device& device_;
  const VqParts parts_;
  const float skip_mass_;
  const int64_t draft_rows_;
  const std::shared_ptr<RowReads> row_reads_;
  const int64_t reporter_;  // its number among the layers that report to row_reads_
  DType prefill_factors_ = DType::kFloat32;  // bfloat16 unless weights are float32
  int32_t* undo_ = nullptr;                  // [draft_rows_, undo_words()]
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_ATTENTION_H_
