// Attention whose scores are products of features, so that the past is kept as a sum
// (docs/mathematics.md): the linear Transformer, the soft codebook and Performer, which differ in
// how features are computed.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_LINEAR_CORE_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_LINEAR_CORE_H_

#include <string>

#include "kernels/ops/attention/features.h"
#include "models/runtime/layers/attention/attention_config.h"
#include "models/runtime/layers/attention/attention_core.h"
#include "models/runtime/layers/attention/linear/parts.h"

namespace tvq {

class LinearCore : public AttentionCore {
 public:
  // The device must outlive it.
  LinearCore(const AttentionConfig& config, Device& device);

  void Load(const std::string& prefix, WeightLoader& loader) override;
  void Reserve(int64_t rows, WorkingMemory& memory) override;
  absl::Status CheckDevice() override { return Named(ComputeFeatures(0)); }
  const LayerParts& parts() const override { return parts_; }
  size_t view_bytes() const override { return sizeof(LinearState); }
  void View(const PartMemory& memory, std::byte* view) const override;
  void Project(int64_t rows, QkvgProjectionArgs& args) const override;
  absl::Status Prefill(const LayerState& state, const AttentionRows& rows) override;
  absl::Status Decode(const RowStates& states, const AttentionRows& rows) override;

 private:
  // If `status` is UNIMPLEMENTED because the device does not compute these features, adds to its
  // message which device and model would do.
  absl::Status Named(const absl::Status& status) const;
  // Computes the features of the rows' keys, and those of their queries; if compares(), only the
  // exponents of the latter.
  absl::Status ComputeFeatures(int64_t rows);
  // Whether features come from a table of codes or random rows.
  bool compares() const { return key_map_ != FeatureMap::kEluPlusOne; }

  // Of the first `n` rows.
  Tensor<float, 3> q(int64_t n) const { return {q_, {n, config_.n_head, config_.d_k}}; }
  Tensor<float, 3> k(int64_t n) const { return {k_, {n, config_.n_kv_head, config_.d_k}}; }
  Tensor<float, 3> query_features(int64_t n) const {
    return {compares() ? query_features_ : q_, {n, config_.n_head, parts_.shape().features}};
  }
  Tensor<float, 3> key_features(int64_t n) const {
    return {compares() ? key_features_ : k_, {n, config_.n_kv_head, parts_.shape().features}};
  }

  const AttentionConfig config_;
  Device& device_;
  const FeatureMap key_map_;
  const LinearParts parts_;
  HeadKeys table_;  // codes, or random rows; none with elu + 1
  float *q_ = nullptr, *k_ = nullptr, *query_features_ = nullptr, *key_features_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_LINEAR_CORE_H_
