// Attention over quantized keys in both directions (docs/mathematics.md).
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_ENCODER_ATTENTION_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_ENCODER_ATTENTION_H_

#include <string>
#include <utility>
#include <vector>

#include "kernels/ops/attention/vq_encoder.h"
#include "models/runtime/arch/transformer/attention.h"
#include "models/runtime/arch/transformer/bidirectional.h"
#include "models/runtime/arch/transformer/config.h"

namespace tvq::transformer {

class EncoderAttention : public Attention, public Bidirectional, public QuantizedKeys {
 public:
  // The device must outlive it.
  EncoderAttention(const TransformerConfig& config, Device& device, DType state_dtype);

  void LoadLayer(const std::string& prefix, WeightLoader& loader) override;
  absl::Status Reserve(int64_t rows) override;
  int64_t WorkspaceBytes() const override { return static_cast<int64_t>(memory_.bytes()); }
  DType state_dtype() const override { return DType::kFloat32; }
  int64_t kept_parts() const override { return 0; }
  const LayerParts& parts() const override { return parts_; }
  size_t view_bytes() const override { return 0; }
  void View(const PartMemory&, std::byte*) const override {}
  void Project(int64_t layer, int64_t rows, QkvgProjectionArgs& args) const override;
  // UNIMPLEMENTED: it predicts nothing.
  absl::Status Prefill(int64_t layer, const SessionState& state,
                       const AttentionRows& rows) override;
  absl::Status Decode(int64_t layer, const RowInputs& inputs, const AttentionRows& rows) override;

  Bidirectional* bidirectional() override { return this; }
  int64_t collected_bytes() const override { return 2 * sum_bytes_ + count_bytes_; }
  absl::Status Collect(int64_t layer, const EncodingState& state,
                       const AttentionRows& rows) override;
  absl::Status Attend(int64_t layer, const EncodingState& state,
                      const AttentionRows& rows) override;

  QuantizedKeys* quantized_keys() override { return this; }
  void SetTap(Tap tap) override { tap_ = std::move(tap); }
  bool host_takes_part() const override { return tap_ != nullptr; }

 private:
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
  const CodeSumsShape shape_;
  const int64_t sum_bytes_, count_bytes_;
  const LayerParts parts_{{}};
  std::vector<HeadKeys> codebooks_;  // of each layer
  Buffer memory_;
  float *q_ = nullptr, *k_ = nullptr, *code_scores_ = nullptr;
  int32_t* codes_ = nullptr;
  Tap tap_;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_ENCODER_ATTENTION_H_
