// Activations of one call, allocated once; those of the attention are its own.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_WORKSPACE_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_WORKSPACE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor.h"
#include "models/runtime/arch/transformer/config.h"
#include "models/runtime/arch/transformer/row_inputs.h"

namespace tvq::transformer {

class Workspace {
 public:
  // Rows of logits computed at once when every position of a chunk is scored.
  static constexpr int64_t kScoreRows = 64;

  // `view_bytes`: see RowInputs.
  static absl::StatusOr<Workspace> Create(Device& device, const TransformerConfig& config,
                                          size_t view_bytes);

  int64_t rows() const { return rows_; }  // most rows of one pass through the layers
  int64_t bytes() const { return static_cast<int64_t>(memory_.bytes()) + inputs_.bytes(); }

  RowInputs& inputs() { return inputs_; }

  // Views of the first `n` rows.
  Matrix<float> x(int64_t n) const { return {x_, {n, d_model_}}; }
  Matrix<float> normed(int64_t n) const { return {normed_, {n, d_model_}}; }
  Tensor<float, 3> v(int64_t n) const { return {v_, {n, kv_heads_, value_}}; }
  // Of a gated block; of shape [0, 0, 0] in another.
  Tensor<float, 3> g(int64_t n) const {
    return hidden_width_ > 0 ? Tensor<float, 3>() : Tensor<float, 3>{g_, {n, heads_, value_}};
  }
  // Of a standard block.
  Matrix<float> hidden(int64_t n) const { return {hidden_, {n, hidden_width_}}; }
  Tensor<float, 3> o(int64_t n) const { return {o_, {n, heads_, value_}}; }
  Matrix<float> score_logits(int64_t n) const { return {score_logits_, {n, vocab_}}; }

 private:
  Buffer memory_;
  RowInputs inputs_;
  int64_t rows_ = 0, d_model_ = 0, heads_ = 0, kv_heads_ = 0, value_ = 0, hidden_width_ = 0,
          vocab_ = 0;
  float *x_ = nullptr, *normed_ = nullptr, *v_ = nullptr, *g_ = nullptr, *hidden_ = nullptr,
        *o_ = nullptr, *score_logits_ = nullptr;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_WORKSPACE_H_
