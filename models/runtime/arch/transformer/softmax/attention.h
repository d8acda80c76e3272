// Softmax attention over every key: Transformer-VQ's without its codebook.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_ATTENTION_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_ATTENTION_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/runtime/arch/transformer/attention.h"
#include "models/runtime/arch/transformer/config.h"
#include "models/runtime/arch/transformer/position_keys.h"
#include "models/runtime/arch/transformer/softmax/paged_state.h"

namespace tvq::transformer {

class SoftmaxAttention : public Attention {
 public:
  static constexpr bool kStatesGrow = true;

  // The device must outlive it. config.common.max_position is set.
  SoftmaxAttention(const TransformerConfig& config, Device& device, DType state_dtype);

  void LoadLayer(const std::string& prefix, WeightLoader& loader) override;
  absl::Status Reserve(int64_t rows) override;
  int64_t WorkspaceBytes() const override { return static_cast<int64_t>(memory_.bytes()); }
  DType state_dtype() const override { return layout_.shape.dtype; }
  int64_t kept_parts() const override { return 2; }
  int64_t StateBytes(int64_t tokens) const override { return layout_.Bytes(tokens); }
  std::vector<SectionInfo> StateSections(int64_t position) const override {
    return layout_.Sections(position);
  }
  absl::StatusOr<std::unique_ptr<SessionState>> NewState(StateMemory memory) override;
  size_t view_bytes() const override { return sizeof(KeyValuePages); }
  void View(const SessionState& state, int64_t layer, std::byte* view) const override;
  void Project(int64_t layer, int64_t rows, QkvgProjectionArgs& args) const override;
  absl::Status Prefill(int64_t layer, const SessionState& state,
                       const AttentionRows& rows) override;
  absl::Status Decode(int64_t layer, const RowInputs& inputs, const AttentionRows& rows) override;

 private:
  // t is folded into u, w and the position keys.
  struct LayerWeights {
    QueryBiases biases;
    HeadKeys positions;  // R [H, M+1, K], by distance
  };

  absl::Status ScorePositions(int64_t layer, int64_t rows);

  // Of the first `n` rows.
  Tensor<float, 3> q_u(int64_t n) const { return {q_u_, {n, config_.n_head, config_.d_k}}; }
  Tensor<float, 3> q_w(int64_t n) const { return {q_w_, {n, config_.n_head, config_.d_k}}; }
  Tensor<float, 3> k(int64_t n) const { return {k_, {n, config_.n_kv_head, config_.d_k}}; }
  Tensor<float, 3> position_scores(int64_t n) const {
    return {position_scores_, {n, config_.n_head, config_.window()}};
  }

  const TransformerConfig config_;
  Device& device_;
  const PageLayout layout_;
  std::optional<PositionKeys> position_keys_;  // while layers are loaded
  std::vector<LayerWeights> layers_;
  Buffer memory_;
  float *q_u_ = nullptr, *q_w_ = nullptr, *k_ = nullptr, *position_scores_ = nullptr;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_ATTENTION_H_
