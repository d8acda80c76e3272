// Attention over keys that are quantized to a codebook (Lingle, Transformer-VQ, ICLR 2024).
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_CORE_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_CORE_H_

#include <memory>
#include <string>

#include "kernels/ops/attention/head_scores.h"
#include "models/runtime/layers/attention/attention_config.h"
#include "models/runtime/layers/attention/attention_core.h"
#include "models/runtime/layers/attention/relative_queries.h"
#include "models/runtime/layers/attention/vq/attention.h"
#include "models/runtime/layers/attention/vq/turned_codes.h"
#include "models/runtime/model.h"
#include "models/runtime/stack/key_tap.h"
#include "models/runtime/stack/row_reads.h"

namespace tvq {

// What all layers of a model share.
struct VqTables {
  explicit VqTables(const AttentionConfig& config)
      : relative(config), turns(std::make_shared<Buffer>()) {}

  RelativeTables relative;
  std::shared_ptr<Buffer> turns;
  std::shared_ptr<KeyTap> tap = std::make_shared<KeyTap>();
  std::shared_ptr<RowReads> row_reads;  // null unless decode may leave rows out
};

class VqCore : public AttentionCore {
 public:
  // For block `layer`, counted from 0. The device must outlive it.
  VqCore(const AttentionConfig& config, Device& device, DType state_dtype, const StateReads& reads,
         int64_t draft_rows, const VqTables& tables, int64_t layer);

  void Load(const std::string& prefix, WeightLoader& loader) override;
  void Reserve(int64_t rows, WorkingMemory& memory) override;
  const LayerParts& parts() const override { return attention_.parts(); }
  size_t view_bytes() const override { return sizeof(VqState); }
  void View(const PartMemory& memory, std::byte* view) const override {
    attention_.View(memory, view);
  }
  void Project(int64_t rows, QkvgProjectionArgs& args) const override {
    queries_.Project(rows, args);
  }
  absl::Status Prefill(const LayerState& state, const AttentionRows& rows) override;
  absl::Status Decode(const RowStates& states, const AttentionRows& rows) override;
  LayerRounding rounding() const override { return attention_.rounding(); }
  LayerUndo* undo() override { return attention_.undo(); }

 private:
  bool turned() const { return config_.position_bias == PositionBias::kRerope; }
  // Computes the codes of the rows' keys, and the scores of their queries. With turned codes,
  // position scores are computed later, since they depend on the states.
  absl::Status Score(int64_t rows);
  VqRows Scored(const AttentionRows& rows) const {
    const int64_t n = rows.v.dim(0);
    return {code_scores(n), queries_.position_scores(n), codes(n), rows.v, rows.out};
  }

  // Of the first `n` rows.
  Tensor<float, 3> code_scores(int64_t n) const {
    return {code_scores_, {n, config_.n_head, config_.n_code}};
  }
  Matrix<int32_t> codes(int64_t n) const { return {codes_, {n, config_.n_kv_head}}; }

  const AttentionConfig config_;
  Device& device_;
  const int64_t layer_;
  const std::shared_ptr<KeyTap> tap_;
  VqAttention attention_;
  RelativeQueries queries_;
  HeadKeys codebook_;         // C [G, S, K]
  TurnedCodes turned_codes_;  // rerope only
  float* code_scores_ = nullptr;
  int32_t* codes_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_VQ_CORE_H_
