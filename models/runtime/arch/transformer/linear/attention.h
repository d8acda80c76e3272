// Attention by products of features, whose past is a sum (docs/mathematics.md): the linear
// Transformer, the soft codebook and Performer, which differ in what features are.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_LINEAR_ATTENTION_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_LINEAR_ATTENTION_H_

#include <string>
#include <vector>

#include "kernels/ops/attention/features.h"
#include "models/runtime/arch/transformer/attention.h"
#include "models/runtime/arch/transformer/config.h"
#include "models/runtime/arch/transformer/linear/parts.h"

namespace tvq::transformer {

class LinearAttention : public Attention {
 public:
  // The device must outlive it. Sums are float32 whatever the dtype of what other states keep.
  LinearAttention(const TransformerConfig& config, Device& device, DType state_dtype);

  void LoadLayer(const std::string& prefix, WeightLoader& loader) override;
  absl::Status Reserve(int64_t rows) override;
  int64_t WorkspaceBytes() const override { return static_cast<int64_t>(memory_.bytes()); }
  DType state_dtype() const override { return DType::kFloat32; }
  int64_t kept_parts() const override { return 0; }
  const LayerParts& parts() const override { return parts_; }
  size_t view_bytes() const override { return sizeof(LinearState); }
  void View(const PartMemory& memory, std::byte* view) const override;
  void Project(int64_t layer, int64_t rows, QkvgProjectionArgs& args) const override;
  absl::Status Prefill(int64_t layer, const SessionState& state,
                       const AttentionRows& rows) override;
  absl::Status Decode(int64_t layer, const RowInputs& inputs, const AttentionRows& rows) override;

 private:
  // UNIMPLEMENTED, naming what would do, where the device does not compute these features.
  absl::Status CheckDevice();
  // Of the rows' keys, and of their queries: of those that are compared with a table the exponents.
  absl::Status ComputeFeatures(int64_t layer, int64_t rows);
  bool compares() const { return key_map_ != FeatureMap::kEluPlusOne; }  // with a table

  // Of the first `n` rows.
  Tensor<float, 3> q(int64_t n) const { return {q_, {n, config_.n_head, config_.d_k}}; }
  Tensor<float, 3> k(int64_t n) const { return {k_, {n, config_.n_kv_head, config_.d_k}}; }
  Tensor<float, 3> query_features(int64_t n) const {
    return {query_features_, {n, config_.n_head, parts_.shape().features}};
  }
  Tensor<float, 3> key_features(int64_t n) const {
    return {key_features_, {n, config_.n_kv_head, parts_.shape().features}};
  }

  const TransformerConfig config_;
  Device& device_;
  const FeatureMap key_map_;
  const LinearParts parts_;
  std::vector<HeadKeys> tables_;  // of each layer: codes, or random rows; none with elu + 1
  Buffer memory_;
  float *q_ = nullptr, *k_ = nullptr, *query_features_ = nullptr, *key_features_ = nullptr;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_LINEAR_ATTENTION_H_
