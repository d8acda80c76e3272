// The time mixing of RWKV-7 (Peng et al. 2025): x += (what the op RwkvTimeMix makes) Wo. Ahead of
// the op, from shifted rows s_r, s_w, s_k, s_v, s_a, s_g of the normed rows (TokenShift):
//
//   r = s_r Wr   k = s_k Wk   v = s_v Wv       decay = sigmoid(tanh(s_w W1) W2 + w0)
//   rate = sigmoid(s_a A1 A2 + a0)             gate = sigmoid(s_g G1) G2
//   v_mix = sigmoid(s_v V1 V2 + v0), not in the first block, whose v all others mix with their own
#ifndef TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RWKV_TIME_MIX_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RWKV_TIME_MIX_LAYER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops/linear.h"
#include "models/runtime/layers/recurrent/recurrent_layer.h"
#include "models/runtime/layers/recurrent/rwkv/rwkv_config.h"
#include "models/runtime/stack/row_norm.h"

namespace tvq {

class TimeMixLayer : public RecurrentLayer {
 public:
  // `first` is the layer of the first block, null if this is it; it must come ahead of this layer,
  // and outlive it like the device.
  TimeMixLayer(std::string prefix, const RwkvConfig& config, const TimeMixLayer* first,
               int64_t draft_rows, Device& device);

  void Load(WeightLoader& loader) override;
  // r, k, v, both factors of four low-rank products, and the output.
  LayerRounding rounding() const override { return {.products = 12}; }

 protected:
  void ReserveRows(int64_t rows, WorkingMemory& memory) override;
  absl::Status Compute(const RecurrentRows& sessions, const LayerRows& rows) override;

 private:
  // In the order of the rows of mix_.
  enum Shifted : int64_t { kR, kW, kK, kV, kA, kG, kShifted };

  struct LowRank {
    LinearWeight down;  // [rank, D]
    LinearWeight up;    // [D, rank]
    Buffer bias;        // [D], or empty

    void Load(const std::string& name, int64_t rank, int64_t width, bool biased,
              WeightLoader& loader);
  };
  std::vector<float> ReadMix(WeightLoader& loader) const;  // [kShifted, D]
  // y = outside(inside(x down^T) up^T + bias), x being rows that were shifted.
  absl::Status Apply(const LowRank& factors, Shifted x, Activation inside, Activation outside,
                     float* y, const LayerRows& rows);
  absl::Status Project(const LayerRows& rows);

  Matrix<float> Rows(float* from, int64_t n) const { return {from, {n, config_.width}}; }
  Tensor<float, 3> Heads(float* from, int64_t n) const {
    return {from, {n, config_.heads(), config_.head}};
  }
  Matrix<const float> PerHead(const Buffer& from) const {
    return {from.as<const float>(), {config_.heads(), config_.head}};
  }

  const RwkvConfig config_;
  const TimeMixLayer* const first_;
  RowNorm norm_;
  Buffer mix_;                  // [6, D]
  LinearWeight r_, k_, v_, o_;  // [D, D]
  LowRank decay_, rate_, value_, gate_;
  Buffer k_k_, k_a_, r_k_, head_gain_, head_bias_;  // [H, K]
  float *normed_ = nullptr, *shifted_ = nullptr, *low_ = nullptr, *out_ = nullptr;
  float *r_rows_ = nullptr, *k_rows_ = nullptr, *v_rows_ = nullptr;
  float *decay_rows_ = nullptr, *rate_rows_ = nullptr, *v_mix_ = nullptr, *gate_rows_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RWKV_TIME_MIX_LAYER_H_
