// Attention of key/value heads that keep recent keys exactly in a ring, and for all older positions
// sums of values by code (docs/mathematics.md, Converted models). So the state of a softmax model
// does not grow.
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

// The attention of one group of heads of a block.
class RingLayer : public Layer {
 public:
  // Layers that come ahead of it and that it uses, and what all layers of a model share. The layers
  // and the device must outlive it.
  struct Parts {
    const RingProjectionLayer& projection;
    size_t group;  // its number in the block
    const AnglesLayer& angles;
    const FarAnglesLayer& far_angles;  // of rings of the same length
    std::shared_ptr<KeyTap> tap;
    int64_t number;                       // its number for the tap
    std::shared_ptr<RowReads> row_reads;  // null unless decode may leave rows out
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
  // The groups of a block work side by side on the same rows, so only the first one counts.
  LayerRounding rounding() const override {
    if (of_.group > 0) return {};
    LayerRounding rounding = attention_.rounding();
    ++rounding.kept;  // keys
    return rounding;
  }
  int64_t cached_numbers() const override { return 2 * kv_heads() * key(); }
  LayerUndo* undo() override { return attention_.undo(); }

 private:
  // Computes queries, keys, values, codes and scores by code of the projected rows.
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
