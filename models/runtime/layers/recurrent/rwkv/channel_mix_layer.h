// The channel mixing of RWKV-7 (Peng et al. 2025): x += max(s Wk, 0)^2 Wv, where s are the shifted
// rows of the normed rows (TokenShift).
#ifndef TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RWKV_CHANNEL_MIX_LAYER_H_
#define TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RWKV_CHANNEL_MIX_LAYER_H_

#include <cstdint>
#include <string>

#include "kernels/ops/linear.h"
#include "models/runtime/layers/recurrent/recurrent_layer.h"
#include "models/runtime/layers/recurrent/rwkv/rwkv_config.h"
#include "models/runtime/stack/row_norm.h"

namespace tvq {

class ChannelMixLayer : public RecurrentLayer {
 public:
  // The device must outlive it.
  ChannelMixLayer(std::string prefix, const RwkvConfig& config, int64_t draft_rows, Device& device);

  void Load(WeightLoader& loader) override;
  LayerRounding rounding() const override { return {.products = 2}; }

 protected:
  void ReserveRows(int64_t rows, WorkingMemory& memory) override;
  absl::Status Compute(const RecurrentRows& sessions, const LayerRows& rows) override;

 private:
  const RwkvConfig config_;
  RowNorm norm_;
  Buffer mix_;          // [D]
  LinearWeight key_;    // [F, D]
  LinearWeight value_;  // [D, F]
  float *normed_ = nullptr, *shifted_ = nullptr, *inside_ = nullptr;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_LAYERS_RECURRENT_RWKV_CHANNEL_MIX_LAYER_H_
