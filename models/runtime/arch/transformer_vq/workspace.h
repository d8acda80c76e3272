// Activations of one call, allocated once.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_WORKSPACE_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_WORKSPACE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "kernels/tensor.h"
#include "models/runtime/arch/transformer_vq/config.h"
#include "models/runtime/arch/transformer_vq/row_inputs.h"

namespace tvq::transformer_vq {

class Workspace {
 public:
  // Rows of logits computed at once when every position of a chunk is scored.
  static constexpr int64_t kScoreRows = 64;
  // Least number of rows, so that small prefill chunks do not make small decode tiles.
  static constexpr int64_t kMinRows = 64;

  static absl::StatusOr<Workspace> Create(Device& device, const VqConfig& config);

  int64_t rows() const { return rows_; }  // most rows of one pass through the layers
  int64_t bytes() const { return static_cast<int64_t>(memory_.bytes()) + inputs_.bytes(); }

  RowInputs& inputs() { return inputs_; }

  // Views of the first `n` rows.
  Matrix<float> x(int64_t n) const { return {x_, {n, d_model_}}; }
  Matrix<float> normed(int64_t n) const { return {normed_, {n, d_model_}}; }
  Tensor<float, 3> q_u(int64_t n) const { return {q_u_, {n, heads_, key_}}; }
  Tensor<float, 3> q_w(int64_t n) const { return {q_w_, {n, heads_, key_}}; }
  Tensor<float, 3> k(int64_t n) const { return {k_, {n, kv_heads_, key_}}; }
  Tensor<float, 3> v(int64_t n) const { return {v_, {n, kv_heads_, value_}}; }
  Tensor<float, 3> g(int64_t n) const { return {g_, {n, heads_, value_}}; }
  Tensor<float, 3> o(int64_t n) const { return {o_, {n, heads_, value_}}; }
  Tensor<float, 3> code_scores(int64_t n) const { return {code_scores_, {n, heads_, codes_}}; }
  Tensor<float, 3> position_scores(int64_t n) const {
    return {position_scores_, {n, heads_, window_}};
  }
  Matrix<int32_t> codes(int64_t n) const { return {code_, {n, kv_heads_}}; }
  Matrix<float> score_logits(int64_t n) const { return {score_logits_, {n, vocab_}}; }

 private:
  Buffer memory_;
  RowInputs inputs_;
  int64_t rows_ = 0, d_model_ = 0, heads_ = 0, kv_heads_ = 0, key_ = 0, value_ = 0, codes_ = 0,
          window_ = 0, vocab_ = 0;
  float *x_ = nullptr, *normed_ = nullptr, *q_u_ = nullptr, *q_w_ = nullptr, *k_ = nullptr,
        *v_ = nullptr, *g_ = nullptr, *o_ = nullptr, *code_scores_ = nullptr,
        *position_scores_ = nullptr, *score_logits_ = nullptr;
  int32_t* code_ = nullptr;
};

}  // namespace tvq::transformer_vq

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_WORKSPACE_H_
