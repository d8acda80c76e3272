// A layer with attention over quantized keys in both directions (docs/mathematics.md): a layer's
// keys are all collected before its first query attends.
#ifndef TVQ_MODELS_RUNTIME_FAMILIES_ENCODER_LAYER_H_
#define TVQ_MODELS_RUNTIME_FAMILIES_ENCODER_LAYER_H_

#include <memory>
#include <string>

#include "kernels/ops/attention/vq_encoder.h"
#include "models/runtime/families/encoder/encoding_state.h"
#include "models/runtime/families/transformer/transformer_config.h"
#include "models/runtime/layers/attention/projection.h"
#include "models/runtime/layers/mlp/mlp_layer.h"
#include "models/runtime/stack/key_tap.h"
#include "models/runtime/stack/layer.h"

namespace tvq {

class EncoderLayer {
 public:
  // Layer `layer`, counted from 0. The device must outlive it.
  EncoderLayer(const TransformerConfig& config, Device& device, std::shared_ptr<KeyTap> tap,
               int64_t layer);

  // As Layer's methods of these names.
  void Load(WeightLoader& loader);
  void Reserve(int64_t rows, WorkingMemory& memory);

  // Bytes of what a text collects in a layer.
  static int64_t CollectedBytes(const TransformerConfig& config);

  // Adds the rows' keys and values to what `state` has collected in this layer; before the layer's
  // first row that must be all zero. Both Collect and Attend project the rows: to keep queries,
  // keys and values in between would take several times the memory of the rows.
  absl::Status Collect(const EncodingState& state, const LayerRows& rows);
  // Attends to all that `state` has collected, and adds the result to the rows.
  absl::Status Attend(const EncodingState& state, const LayerRows& rows);

 private:
  absl::Status Project(const LayerRows& rows);
  CodeSums SumsOf(const EncodingState& state) const;

  // Of the first `n` rows.
  Tensor<float, 3> q(int64_t n) const { return {q_, {n, config_.n_head, config_.d_k}}; }
  Tensor<float, 3> k(int64_t n) const { return {k_, {n, config_.n_kv_head, config_.d_k}}; }
  Tensor<float, 3> code_scores(int64_t n) const {
    return {code_scores_, {n, config_.n_head, config_.n_code}};
  }
  Matrix<int32_t> codes(int64_t n) const { return {codes_, {n, config_.n_kv_head}}; }

  const TransformerConfig config_;
  Device& device_;
  const std::shared_ptr<KeyTap> tap_;
  const int64_t layer_;
  const std::string prefix_;
  const CodeSumsShape shape_;
  const int64_t sum_bytes_;
  Projection projection_;
  HeadKeys codebook_;              // C [G, S, K]
  std::unique_ptr<MlpLayer> mlp_;  // null unless the block is a standard one
  float *q_ = nullptr, *k_ = nullptr, *code_scores_ = nullptr;
  int32_t* codes_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_ENCODER_LAYER_H_
