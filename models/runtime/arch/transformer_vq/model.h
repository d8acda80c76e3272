// Transformer-VQ (Lingle 2023): gated attention units whose keys are quantized to a codebook.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_MODEL_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_MODEL_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/arch/transformer_vq/config.h"
#include "models/runtime/arch/transformer_vq/state.h"
#include "models/runtime/arch/transformer_vq/weights.h"
#include "models/runtime/arch/transformer_vq/workspace.h"
#include "models/runtime/model.h"
#include "models/runtime/registry.h"

namespace tvq::transformer_vq {

inline constexpr char kFamily[] = "transformer_vq";

class VqModel : public Model, public QuantizedKeys {
 public:
  static absl::StatusOr<std::unique_ptr<Model>> Create(const Config& config, WeightSource& weights,
                                                       std::unique_ptr<Tokenizer> tokenizer,
                                                       const LoadOptions& options);

  const ModelInfo& info() const override { return info_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  absl::Status Health() const override { return device_->Health(); }
  int64_t StateBytes(int64_t) const override { return layout_.bytes(); }
  int64_t WorkspaceBytes(int64_t) const override { return workspace_.bytes(); }
  absl::Status Prepare(const Preparation& preparation) override;
  std::optional<int64_t> FreeDeviceMemory() const override { return device_->FreeMemory(); }
  absl::Status ReserveStates(int64_t bytes) override {
    return device_->Reserve(static_cast<size_t>(bytes));
  }
  absl::StatusOr<std::unique_ptr<State>> NewState() override;
  absl::StatusOr<Logits> NewLogits(int64_t rows) override;
  absl::Status ReadLogits(const Logits& logits, int64_t row, std::span<float> out) override;
  absl::Status WriteLogits(std::span<const float> values, Logits* logits, int64_t row) override;
  absl::Status Prefill(std::span<const PrefillChunk> chunks, Logits* logits) override;
  absl::Status Decode(std::span<const DecodeRow> rows, Logits* logits) override;
  absl::Status Sample(const Logits& logits, std::span<const SampleRow> rows, int64_t max_top,
                      std::span<TokenLogprob> chosen, std::span<TokenLogprob> top,
                      std::span<absl::Status> row_status) override;

  QuantizedKeys* quantized_keys() override { return this; }
  void SetTap(Tap tap) override { tap_ = std::move(tap); }

 private:
  // DecodeLayers written down for a number of rows. Rows that a batch lacks are of nobody.
  struct RecordedStep {
    int64_t rows = 0;
    std::unique_ptr<Recording> layers;
  };

  VqModel(VqConfig config, Weights weights, std::unique_ptr<Tokenizer> tokenizer,
          std::shared_ptr<Device> device, StateLayout layout, Workspace workspace, ModelInfo info);

  // Runs the workspace's rows through all layers; leaves them in its x. `attend` is the layer's
  // attention over the projected rows: the only thing in which prefill and decode differ.
  using Attend = std::function<absl::Status(int64_t layer)>;
  // `chunk_rows`: kernels/ops/linear.h.
  absl::Status Layers(int64_t chunk_rows, const Attend& attend);
  absl::Status TapCodes(int64_t layer, int64_t rows);
  absl::Status PrefillOne(const PrefillChunk& chunk, Logits* logits);
  absl::Status RecordSteps(int64_t decode_rows, bool record);
  // Everything else once, as large as it gets, so that nothing grows later.
  absl::Status Rehearse(const Preparation& preparation);
  absl::Status DecodeTile(std::span<const DecodeRow> rows, Logits* logits);
  // One token of `rows` sessions, as the workspace's inputs have them, through all layers.
  absl::Status DecodeLayers(int64_t rows);
  // The smallest recorded step that holds so many rows, or null.
  const RecordedStep* Recorded(int64_t rows) const;
  absl::Status Score(const PrefillChunk& chunk);
  // Logits of workspace rows first..first+out.dim(0).
  absl::Status ComputeLogits(int64_t first, Matrix<float> out);
  absl::Status CheckTokens(std::span<const int32_t> tokens) const;

  const VqConfig config_;
  const std::shared_ptr<Device> device_;
  const Weights weights_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  const StateLayout layout_;
  const ModelInfo info_;
  Workspace workspace_;
  std::vector<RecordedStep> recorded_;  // by rows
  Tap tap_;
};

}  // namespace tvq::transformer_vq

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_VQ_MODEL_H_
