// Attention of key/value heads of a converted model that keep all their keys and values
// (docs/mathematics.md, Converted models): softmax attention. Beyond the context that the model was
// trained with, a query is turned for far keys by the same mean as for codes (FarAnglesLayer).
//
//   score(t,u) = a (Rot(t) q) . (Rot(u) k_u)    t < T or t - u < W
//              = a (R_W(t) q) . k_u             else
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_GROWING_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_GROWING_LAYER_H_

#include <cstdint>
#include <string>

#include "kernels/ops/attention/kept_keys.h"
#include "models/runtime/layers/attention/cache_parts.h"
#include "models/runtime/layers/attention/ring/far_angles_layer.h"
#include "models/runtime/layers/attention/ring/projection_layer.h"
#include "models/runtime/layers/attention/rotary/angles_layer.h"
#include "models/runtime/stack/layer.h"

namespace tvq {

// The attention of one group of heads of a block.
class GrowingLayer : public Layer {
 public:
  // Layers that come ahead of it and that it uses. They and the device must outlive it.
  struct Parts {
    const RingProjectionLayer& projection;
    size_t group;  // its number in the block
    const AnglesLayer& angles;
    const FarAnglesLayer& far_angles;  // of rings of W
    int64_t trained_context;           // T
  };
  GrowingLayer(std::string prefix, const Parts& parts, DType state_dtype, int64_t draft_rows,
               Device& device);

  void Load(WeightLoader&) override {}
  void Reserve(int64_t rows, WorkingMemory& memory) override;
  const LayerParts& parts() const override { return parts_; }
  void Place(const StateLayout::Layer& where) override { page_first_ = where.page_first; }
  size_t view_bytes() const override { return sizeof(KeyValuePages); }
  void View(const PartMemory& memory, std::byte* view) const override;
  absl::Status Prefill(const LayerState& state, const LayerRows& rows) override;
  absl::Status Decode(const RowStates& states, const LayerRows& rows) override;
  // Like RingLayer, only the first group of a block counts.
  LayerRounding rounding() const override { return {.kept = of_.group > 0 ? 0 : 3}; }
  int64_t cached_numbers() const override { return 2 * kv_heads() * key(); }
  LayerUndo* undo() override { return undo_.rows() > 0 ? &undo_ : nullptr; }

 private:
  // Makes queries, keys and position scores of the projected rows, in the form that attention
  // reads.
  absl::Status MakeKeys(KeptKeysArgs& args, int64_t rows);

  const RingGroup& group() const { return of_.projection.config().groups[of_.group]; }
  int64_t kv_heads() const { return std::ssize(group().heads); }
  int64_t heads() const { return kv_heads() * of_.projection.config().shared(); }
  int64_t key() const { return of_.projection.config().rotary.head; }
  // For the first `n` rows.
  Tensor<float, 3> queries(float* data, int64_t n) const { return {data, {n, heads(), key()}}; }
  Tensor<float, 3> keys(float* data, int64_t n) const { return {data, {n, kv_heads(), key()}}; }
  Tensor<float, 3> page_q(int64_t n) const { return {page_q_, {n, heads(), 2 * key()}}; }
  Tensor<float, 3> page_k(int64_t n) const { return {page_k_, {n, kv_heads(), 2 * key()}}; }
  Tensor<float, 3> position_scores(int64_t n) const {
    return {position_scores_, {n, heads(), group().ring}};
  }

  const Parts of_;
  Device& device_;
  const CacheParts parts_;
  CacheUndo undo_;
  int64_t page_first_ = 0;  // bytes from a page's start to the layer's keys
  float *q_ = nullptr, *q_far_ = nullptr, *k_ = nullptr, *k_plain_ = nullptr, *v_ = nullptr;
  float *page_q_ = nullptr, *page_k_ = nullptr, *position_scores_ = nullptr, *out_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_GROWING_LAYER_H_
