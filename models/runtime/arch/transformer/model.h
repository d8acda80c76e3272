// A transformer of any attention kind: embedding, layers, logits.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_MODEL_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_MODEL_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/arch/transformer/attention.h"
#include "models/runtime/arch/transformer/bidirectional.h"
#include "models/runtime/arch/transformer/config.h"
#include "models/runtime/arch/transformer/session_state.h"
#include "models/runtime/arch/transformer/state_layout.h"
#include "models/runtime/arch/transformer/weights.h"
#include "models/runtime/arch/transformer/workspace.h"
#include "models/runtime/model.h"
#include "models/runtime/registry.h"

namespace tvq::transformer {

class Transformer : public Model, private Encoder {
 public:
  // Device bytes of a state after `tokens` tokens.
  static int64_t StateBytes(const TransformerConfig& config, Attention& attention, int64_t tokens);

  // `attention` computes on the device of `options`.
  static absl::StatusOr<std::unique_ptr<Model>> Create(const TransformerConfig& config,
                                                       std::unique_ptr<Attention> attention,
                                                       WeightSource& weights,
                                                       std::unique_ptr<Tokenizer> tokenizer,
                                                       const LoadOptions& options);

  const ModelInfo& info() const override { return info_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  absl::Status Health() const override { return device_->Health(); }
  int64_t StateBytes(int64_t tokens) const override;
  std::vector<SectionInfo> StateSections(int64_t position) const override {
    return layout_.Sections(position);
  }
  int64_t WorkspaceBytes(int64_t) const override {
    return workspace_.bytes() + attention_->WorkspaceBytes();
  }
  absl::Status Prepare(const Preparation& preparation) override;
  std::optional<int64_t> FreeDeviceMemory() const override { return device_->FreeMemory(); }
  absl::Status ReserveStates(int64_t bytes) override {
    return device_->Reserve(static_cast<size_t>(bytes));
  }
  absl::StatusOr<std::unique_ptr<State>> NewState() override {
    return NewStateIn(StateMemory::kReusable);
  }
  absl::StatusOr<Logits> NewLogits(int64_t rows) override;
  absl::Status ReadLogits(const Logits& logits, int64_t row, std::span<float> out) override;
  absl::Status WriteLogits(std::span<const float> values, Logits* logits, int64_t row) override;
  absl::Status Prefill(const PrefillChunk& chunk, Logits* logits) override;
  absl::Status Decode(std::span<const DecodeRow> rows, Logits* logits) override;
  int64_t DraftRows() const override { return attention_->draft_rows(); }
  absl::Status Rewind(State& state, int64_t position) override;
  StateReadTotals state_reads() const override { return attention_->read_totals(); }
  absl::Status Sample(const Logits& logits, std::span<const SampleRow> rows, int64_t max_top,
                      std::span<TokenLogprob> chosen, std::span<TokenLogprob> top,
                      std::span<absl::Status> row_status) override;
  Encoder* encoder() override { return attention_->bidirectional() != nullptr ? this : nullptr; }
  QuantizedKeys* quantized_keys() override { return attention_->quantized_keys(); }

 private:
  // A row of the last call of Decode.
  struct FedRow {
    State* state = nullptr;
    int64_t position = 0;
    int64_t draft = -1;  // its number among those behind another of the same state
  };

  // DecodeLayers written down for a number of rows. Rows that a batch lacks are of nobody.
  struct RecordedStep {
    int64_t rows = 0;
    std::unique_ptr<Recording> layers;
  };

  Transformer(TransformerConfig config, std::shared_ptr<Device> device,
              std::unique_ptr<Attention> attention, Weights weights,
              std::unique_ptr<Tokenizer> tokenizer, Workspace workspace, ModelInfo info);

  absl::StatusOr<std::unique_ptr<State>> NewStateIn(StateMemory memory);
  // UNIMPLEMENTED of an encoder.
  absl::Status CheckPredicts() const;

  // forward.cc
  // Runs the workspace's rows through all layers; leaves them in its x. `attend` is the layer's
  // attention over the projected rows: the only thing in which prefill and decode differ.
  using Attend = std::function<absl::Status(int64_t layer, const AttentionRows& rows)>;
  // `chunk_rows`: kernels/ops/linear.h.
  absl::Status Layers(int64_t chunk_rows, const Attend& attend);
  absl::Status Embed(int64_t rows);
  absl::Status Layer(int64_t layer, int64_t rows, int64_t chunk_rows, const Attend& attend);
  // The projections ahead of attention.
  absl::Status Project(int64_t layer, int64_t rows, int64_t chunk_rows);
  // What follows attention in a standard block: output projection and MLP, each with its residual.
  absl::Status StandardOutput(int64_t layer, int64_t rows, int64_t chunk_rows);
  // The block's norm.
  absl::Status Norm(Matrix<const float> x, const Buffer& gain, const Buffer& bias,
                    Matrix<float> out);
  // Logits of workspace rows first..first+out.dim(0).
  absl::Status ComputeLogits(int64_t first, Matrix<float> out);
  absl::Status CheckTokens(std::span<const int32_t> tokens) const;

  // prefill.cc
  absl::Status Score(const PrefillChunk& chunk);

  // decode.cc
  // Notes in fed_ where the rows of a call go.
  absl::Status PlaceRows(std::span<const DecodeRow> rows);
  // Rows of the call and their places.
  absl::Status DecodeTile(std::span<const DecodeRow> rows, std::span<const FedRow> places,
                          Logits* logits);
  // What the ops are told of the rows' states, of `padded` rows for each layer.
  std::vector<std::byte> Views(std::span<const FedRow> rows, size_t padded) const;
  // One token of each row that the workspace's inputs have, through all layers.
  absl::Status DecodeLayers();
  // The smallest recorded step that holds so many rows, or null.
  const RecordedStep* Recorded(int64_t rows) const;

  // encode.cc: of attention that is bidirectional.
  int64_t width() const override { return config_.d_model; }
  int64_t Rows(int64_t tokens) const override { return 2 * config_.n_layer * tokens; }
  absl::Status Begin(State& state, std::span<const int32_t> tokens) override;
  absl::Status Advance(State& state, int64_t rows) override;
  absl::Status Read(const State& state, bool mean, std::span<float> out) override;
  // The next n rows of a pass.
  absl::Status EncodeRows(EncodingState& encoding, int64_t n);
  absl::Status EmbedRows(const EncodingState& encoding, int64_t n);

  // prepare.cc
  absl::Status RecordSteps(int64_t decode_rows, bool record);
  // Everything else once, as large as it gets, so that nothing grows later.
  absl::Status Rehearse(const Preparation& preparation);

  const TransformerConfig config_;
  const std::shared_ptr<Device> device_;
  const std::unique_ptr<Attention> attention_;
  const StateLayout layout_;
  const Weights weights_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  const ModelInfo info_;
  Workspace workspace_;
  std::vector<RecordedStep> recorded_;  // by rows
  std::vector<FedRow> fed_;
};

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_MODEL_H_
