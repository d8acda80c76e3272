// A model that encodes texts. All tokens of a text go through a layer before the next layer runs,
// so that attention sees both directions.
#ifndef TVQ_MODELS_RUNTIME_FAMILIES_ENCODER_MODEL_H_
#define TVQ_MODELS_RUNTIME_FAMILIES_ENCODER_MODEL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/families/encoder/encoding_state.h"
#include "models/runtime/families/encoder/layer.h"
#include "models/runtime/stack/device_model.h"
#include "models/runtime/stack/key_tap.h"

namespace tvq {

class EncoderModel : public DeviceModel, private Encoder {
 public:
  static absl::StatusOr<std::unique_ptr<Model>> Create(const TransformerConfig& config,
                                                       WeightSource& weights,
                                                       std::unique_ptr<Tokenizer> tokenizer,
                                                       const LoadOptions& options);

  // Device bytes of a text of so many tokens.
  static int64_t TextBytes(const TransformerConfig& config, int64_t tokens) {
    return EncodingState::Bytes(config.d_model, EncoderLayer::CollectedBytes(config), tokens);
  }

  int64_t StateBytes(int64_t tokens) const override {
    return EncodingState::Bytes(config_.d_model, collected_bytes_, tokens);
  }
  // A session keeps nothing of a text.
  std::vector<SectionInfo> StateSections(int64_t) const override { return {}; }
  absl::Status Prepare(const Preparation& preparation) override;
  absl::StatusOr<std::unique_ptr<State>> NewState() override {
    return NewText(StateReuse::kReusable);
  }
  // UNIMPLEMENTED: it predicts nothing.
  absl::Status Prefill(const PrefillChunk& chunk, Logits* logits) override;
  absl::Status Decode(std::span<const DecodeRow> rows, Logits* logits) override;
  Encoder* encoder() override { return this; }
  QuantizedKeys* quantized_keys() override { return tap_.get(); }

 private:
  EncoderModel(const TransformerConfig& config, std::unique_ptr<Tokenizer> tokenizer,
               const LoadOptions& options);

  // The methods of Encoder.
  int64_t width() const override { return config_.d_model; }
  int64_t Rows(int64_t tokens) const override { return passes() * tokens; }
  absl::Status Begin(State& state, std::span<const int32_t> tokens) override;
  absl::Status Advance(State& state, int64_t rows) override;
  absl::Status Read(const State& state, bool mean, std::span<float> out) override;

  std::unique_ptr<EncodingState> NewText(StateReuse reuse) {
    return std::make_unique<EncodingState>(*device_, config_.d_model, collected_bytes_, reuse);
  }
  // Two for each layer: it collects, then it attends.
  int64_t passes() const { return 2 * std::ssize(layers_); }
  // Computes the next n rows of the current pass.
  absl::Status EncodeRows(EncodingState& encoding, int64_t n);
  absl::Status EmbedRows(const EncodingState& encoding, Matrix<float> out);

  const int64_t collected_bytes_;
  const std::shared_ptr<KeyTap> tap_;
  std::vector<std::unique_ptr<EncoderLayer>> layers_;
  float* x_ = nullptr;  // [rows, D]
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_ENCODER_MODEL_H_
