// Softmax attention over every key: Transformer-VQ's without its codebook.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_ATTENTION_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_ATTENTION_H_

#include <memory>
#include <string>
#include <vector>

#include "models/runtime/arch/transformer/attention.h"
#include "models/runtime/arch/transformer/config.h"
#include "models/runtime/arch/transformer/relative_queries.h"
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
  void Project(int64_t layer, int64_t rows, QkvgProjectionArgs& args) const override {
    queries_.Project(layer, rows, args);
  }
  absl::Status Prefill(int64_t layer, const SessionState& state,
                       const AttentionRows& rows) override;
  absl::Status Decode(int64_t layer, const RowInputs& inputs, const AttentionRows& rows) override;

 private:
  Device& device_;
  const PageLayout layout_;
  RelativeQueries queries_;
  Buffer memory_;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_ATTENTION_H_
