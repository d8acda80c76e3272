// Softmax attention with rotary positions over every key, query heads in groups that share a
// key/value head (Ainslie et al. 2023, GQA):
//
//   q, k, v = rms(x) * gain W + b    q, k: normed per head if the model does so, then turned
//   x += softmax(K^(-1/2) q k^T) v Wo + bo
//
// With an output gate what attention makes is multiplied by sigmoid(rms(x) * gain Wg) ahead of Wo.
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ROTARY_ROTARY_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ROTARY_ROTARY_LAYER_H_

#include <cstdint>
#include <string>

#include "kernels/ops/linear.h"
#include "models/runtime/layers/attention/cache_parts.h"
#include "models/runtime/layers/attention/rotary/angles_layer.h"
#include "models/runtime/layers/attention/rotary/rotary_attention_config.h"
#include "models/runtime/layers/attention/rotary/rotary_weights.h"
#include "models/runtime/stack/layer.h"

namespace tvq {

class RotaryLayer : public Layer {
 public:
  // Keeps keys and values in `state_dtype`. A call may have up to `draft_rows` drafts. `angles`
  // must come ahead of this layer; it and the device must outlive it.
  RotaryLayer(std::string prefix, const RotaryAttentionConfig& config, const AnglesLayer& angles,
              DType state_dtype, int64_t draft_rows, Device& device);

  void Load(WeightLoader& loader) override;
  void Reserve(int64_t rows, WorkingMemory& memory) override;
  const LayerParts& parts() const override { return parts_; }
  void Place(const StateLayout::Layer& where) override { page_first_ = where.page_first; }
  size_t view_bytes() const override { return sizeof(KeyValuePages); }
  void View(const PartMemory& memory, std::byte* view) const override;
  absl::Status Prefill(const LayerState& state, const LayerRows& rows) override;
  absl::Status Decode(const RowStates& states, const LayerRows& rows) override;
  LayerRounding rounding() const override {
    return {.products = config_.output_gate ? 3 : 2, .kept = 2};
  }
  int64_t cached_numbers() const override { return 2 * config_.kv_heads * config_.head; }
  LayerUndo* undo() override { return undo_.rows() > 0 ? &undo_ : nullptr; }

 private:
  absl::Status Project(const LayerRows& rows);
  absl::Status Output(const LayerRows& rows);
  // Packs q, k and v, and the gates if there are any.
  void PackProjections(const RotaryWeights& read, WeightLoader& loader);
  Tensor<float, 3> q(int64_t n) const { return {q_, {n, config_.heads, config_.head}}; }
  Tensor<float, 3> k(int64_t n) const { return {k_, {n, config_.kv_heads, config_.head}}; }
  Tensor<float, 3> v(int64_t n) const { return {v_, {n, config_.kv_heads, config_.head}}; }
  Tensor<float, 3> out(int64_t n) const { return {out_, {n, config_.heads, config_.head}}; }
  Matrix<float> gates(int64_t n) const { return {gates_, {n, config_.heads * config_.head}}; }
  int64_t projected_width() const { return (config_.heads + 2 * config_.kv_heads) * config_.head; }

  const RotaryAttentionConfig config_;
  const AnglesLayer& angles_;
  Device& device_;
  const CacheParts parts_;
  CacheUndo undo_;
  int64_t page_first_ = 0;  // bytes from a page's start to the layer's keys
  Buffer gain_;             // [D]
  LinearWeight qkv_;        // [(H + 2 G) K, D]
  Buffer qkv_bias_;         // [(H + 2 G) K], or empty
  Buffer q_gain_, k_gain_;  // [K], or empty
  LinearWeight gate_;       // [H K, D], or empty
  Buffer gate_bias_;        // [H K], or empty
  LinearWeight o_;          // [D, H K]
  Buffer o_bias_;           // [D], or empty
  float *normed_ = nullptr, *projected_ = nullptr;
  float *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *out_ = nullptr, *gates_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_ROTARY_ROTARY_LAYER_H_
