// Softmax attention over every key: Transformer-VQ's without its codebook.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_ATTENTION_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_ATTENTION_H_

#include <string>
#include <vector>

#include "models/runtime/arch/transformer/attention.h"
#include "models/runtime/arch/transformer/config.h"
#include "models/runtime/arch/transformer/relative_queries.h"
#include "models/runtime/arch/transformer/softmax/parts.h"

namespace tvq::transformer {

class SoftmaxAttention : public Attention {
 public:
  // The device must outlive it.
  SoftmaxAttention(const TransformerConfig& config, Device& device, DType state_dtype);

  void LoadLayer(const std::string& prefix, WeightLoader& loader) override;
  absl::Status Reserve(int64_t rows) override;
  int64_t WorkspaceBytes() const override { return static_cast<int64_t>(memory_.bytes()); }
  DType state_dtype() const override { return parts_.shape().dtype; }
  int64_t kept_parts() const override { return 2; }
  const LayerParts& parts() const override { return parts_; }
  void Place(const StateLayout& layout) override;
  size_t view_bytes() const override { return sizeof(KeyValuePages); }
  void View(const PartMemory& memory, std::byte* view) const override;
  void Project(int64_t layer, int64_t rows, QkvgProjectionArgs& args) const override {
    queries_.Project(layer, rows, args);
  }
  absl::Status Prefill(int64_t layer, const SessionState& state,
                       const AttentionRows& rows) override;
  absl::Status Decode(int64_t layer, const RowInputs& inputs, const AttentionRows& rows) override;

 private:
  Device& device_;
  const CacheParts parts_;
  std::vector<int64_t> layer_offsets_;  // bytes from a page's start to a layer's keys
  RelativeQueries queries_;
  Buffer memory_;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_SOFTMAX_ATTENTION_H_
