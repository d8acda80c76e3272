// Attention of key/value heads that keep a ring of recent keys exactly and, of all that are older,
// sums of values by code (docs/mathematics.md, Converted models): a softmax model whose state does
// not grow.
//
//   c_t(j)     = a (R_W(t) q M) . C_j + b        j < S: a codeword; the sink: a (Rot(W) q) . k_0
//   score(t,u) = a (Rot(t) q) . (Rot(u) k_u)     t - u < W, else c_t(z_u)
//   z_u        = argmin_j |(k_u - A_j) P|^2      the sink for u = 0
#ifndef TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_RING_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_RING_LAYER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/ops/attention/ring_scores.h"
#include "models/runtime/layers/attention/ring/far_angles_layer.h"
#include "models/runtime/layers/attention/ring/projection_layer.h"
#include "models/runtime/layers/attention/rotary/angles_layer.h"
#include "models/runtime/layers/attention/vq/attention.h"
#include "models/runtime/stack/key_tap.h"
#include "models/runtime/stack/layer.h"

namespace tvq {

// Of one group of heads of a block.
class RingLayer : public Layer {
 public:
  // What it is made of: layers that come ahead of it, and what all layers of a model share. All of
  // that and the device must outlive it.
  struct Parts {
    const RingProjectionLayer& projection;
    size_t group;  // its number in the block
    const AnglesLayer& angles;
    const FarAnglesLayer& far_angles;  // of rings as long as its own
    std::shared_ptr<KeyTap> tap;
    int64_t number;                       // among the layers that the tap is shown
    std::shared_ptr<RowReads> row_reads;  // where rows may be left out, else null
  };
  RingLayer(std::string prefix, Parts parts, DType state_dtype, const StateReads& reads,
            int64_t draft_rows, Device& device);

  void Load(WeightLoader& loader) override { attention_.Load(loader); }
  void Reserve(int64_t rows, WorkingMemory& memory) override;
  const LayerParts& parts() const override { return attention_.parts(); }
  size_t view_bytes() const override { return sizeof(VqState); }
  void View(const PartMemory& memory, std::byte* view) const override {
    attention_.View(memory, view);
  }
  absl::Status Prefill(const LayerState& state, const LayerRows& rows) override;
  absl::Status Decode(const RowStates& states, const LayerRows& rows) override;
  // Groups of a block stand beside one another: the first one counts for all.
  LayerRounding rounding() const override {
    if (of_.group > 0) return {};
    LayerRounding rounding = attention_.rounding();
    ++rounding.kept;  // keys
    return rounding;
  }
  int64_t cached_numbers() const override { return 2 * kv_heads() * key(); }
  LayerUndo* undo() override { return attention_.undo(); }

 private:
  // Queries, keys, values, codes and scores by code of the projected rows.
  absl::Status Score(int64_t rows);
  RingRows Ring(int64_t n) const;
  VqRows Scored(int64_t n) const {
    return {code_scores(n), position_scores(n), codes(n), values(v_, n), out(n)};
  }

  const RingGroup& ring() const { return of_.projection.config().groups[of_.group]; }
  const RingGroupWeights& weights() const { return of_.projection.group(of_.group); }
  int64_t kv_heads() const { return std::ssize(ring().heads); }
  int64_t heads() const { return kv_heads() * of_.projection.config().shared(); }
  int64_t key() const { return of_.projection.config().rotary.head; }
  // Of the first `n` rows.
  Tensor<float, 3> queries(float* data, int64_t n) const { return {data, {n, heads(), key()}}; }
  Tensor<float, 3> keys(float* data, int64_t n) const { return {data, {n, kv_heads(), key()}}; }
  Tensor<float, 3> values(float* data, int64_t n) const { return keys(data, n); }
  Tensor<float, 3> out(int64_t n) const { return queries(out_, n); }
  Tensor<float, 3> code_scores(int64_t n) const {
    return {code_scores_, {n, heads(), attention_.shape().codes}};
  }
  Tensor<float, 3> position_scores(int64_t n) const {
    return {position_scores_, {n, heads(), attention_.shape().window}};
  }
  Matrix<int32_t> codes(int64_t n) const { return {codes_, {n, kv_heads()}}; }

  const Parts of_;
  Device& device_;
  VqAttention attention_;
  float *q_ = nullptr, *q_far_ = nullptr, *q_mapped_ = nullptr, *q_sink_ = nullptr;
  float *k_ = nullptr, *k_plain_ = nullptr, *v_ = nullptr, *out_ = nullptr;
  float *code_scores_ = nullptr, *position_scores_ = nullptr;
  int32_t* codes_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_ATTENTION_RING_RING_LAYER_H_
