// Attention over keys that are quantized to a codebook (Lingle, Transformer-VQ, ICLR 2024).
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_ATTENTION_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_ATTENTION_H_

#include <string>
#include <utility>
#include <vector>

#include "kernels/ops/attention/head_scores.h"
#include "models/runtime/arch/transformer/attention.h"
#include "models/runtime/arch/transformer/config.h"
#include "models/runtime/arch/transformer/memory_parts.h"
#include "models/runtime/arch/transformer/relative_queries.h"
#include "models/runtime/arch/transformer/vq/parts.h"
#include "models/runtime/arch/transformer/vq/turned_codes.h"

namespace tvq::transformer {

class VqAttention : public Attention, public QuantizedKeys {
 public:
  // The device must outlive it.
  VqAttention(const TransformerConfig& config, Device& device, DType state_dtype,
              const StateReads& reads, int64_t draft_rows);

  void LoadLayer(const std::string& prefix, WeightLoader& loader) override;
  absl::Status Reserve(int64_t rows) override;
  int64_t WorkspaceBytes() const override { return static_cast<int64_t>(memory_.bytes()); }
  DType state_dtype() const override { return parts_.shape().value_dtype; }
  int64_t kept_parts() const override { return 1; }
  int64_t rounded_factors() const override { return 2; }  // softmax weights, rows of values
  StateReads reads() const override { return reads_; }
  StateReadTotals read_totals() const override;
  absl::Status BeginStep(int64_t rows) override;
  const LayerParts& parts() const override { return parts_; }
  size_t view_bytes() const override { return sizeof(VqState); }
  void View(const PartMemory& memory, std::byte* view) const override;
  int64_t draft_rows() const override { return draft_rows_; }
  void ViewDraft(int64_t layer, int64_t draft, std::byte* view) const override;
  absl::Status TakeBack(const SessionState& state, int64_t position, int64_t draft) override;
  void Project(int64_t layer, int64_t rows, QkvgProjectionArgs& args) const override {
    queries_.Project(layer, rows, args);
  }
  absl::Status Prefill(int64_t layer, const SessionState& state,
                       const AttentionRows& rows) override;
  absl::Status Decode(int64_t layer, const RowInputs& inputs, const AttentionRows& rows) override;

  QuantizedKeys* quantized_keys() override { return this; }
  void SetTap(Tap tap) override { tap_ = std::move(tap); }
  bool host_takes_part() const override { return tap_ != nullptr; }

 private:
  VqState StateOf(const SessionState& state, int64_t layer) const {
    return parts_.At(state.Parts(layer));
  }
  // Where a draft's step keeps what it overwrites in a layer.
  void* Undo(int64_t layer, int64_t draft) const;
  int64_t undo_words() const { return Aligned(VqUndoBytes(parts_.shape())) / 4; }
  bool turned() const { return config_.position_bias == PositionBias::kRerope; }
  // Codes of the rows' keys, and the scores of their queries; without position scores where codes
  // are turned, which needs the states.
  absl::Status Score(int64_t layer, int64_t rows);
  // Adds what the last step has read, of rows that are somebody's, unless that was done.
  absl::Status CountReads() const;

  // Of the first `n` rows.
  Tensor<float, 3> code_scores(int64_t n) const {
    return {code_scores_, {n, config_.n_head, config_.n_code}};
  }
  Matrix<int32_t> codes(int64_t n) const { return {codes_, {n, config_.n_kv_head}}; }
  // What a layer reports, behind the layers before it, where rows may be left out.
  Matrix<float> skipped_mass(int64_t layer, int64_t n) const {
    return {skipped_mass_ + layer * n * config_.n_head, {n, config_.n_head}};
  }
  Tensor<int32_t, 3> row_reads(int64_t layer, int64_t n) const {
    return {row_reads_ + layer * n * config_.n_kv_head * 2, {n, config_.n_kv_head, 2}};
  }

  const TransformerConfig config_;
  Device& device_;
  const StateReads reads_;
  const VqParts parts_;
  const int64_t draft_rows_;
  DType prefill_factors_ = DType::kFloat32;  // bfloat16 where weights are rounded, too
  RelativeQueries queries_;
  std::vector<HeadKeys> codebooks_;  // C [G, S, K], of each layer
  TurnedCodes turned_codes_;         // of rerope
  Buffer memory_;
  float* code_scores_ = nullptr;
  int32_t* codes_ = nullptr;
  float* skipped_mass_ = nullptr;
  int32_t* row_reads_ = nullptr;
  int32_t* undo_ = nullptr;  // [layers, draft_rows_, undo_words()]
  // The last step's reports stay with the device until somebody asks, or the next step begins.
  mutable StateReadTotals read_totals_;
  mutable int64_t uncounted_rows_ = 0;
  Tap tap_;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_ATTENTION_H_
