// A model that predicts tokens: a stack of layers between the two ends of a vocabulary.
#ifndef TVQ_MODELS_RUNTIME_STACK_STACK_H_
#define TVQ_MODELS_RUNTIME_STACK_STACK_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/load_options.h"
#include "models/runtime/model.h"
#include "models/runtime/stack/device_model.h"
#include "models/runtime/stack/key_tap.h"
#include "models/runtime/stack/layer.h"
#include "models/runtime/stack/row_reads.h"
#include "models/runtime/stack/session_state.h"
#include "models/runtime/stack/stack_config.h"
#include "models/runtime/stack/state_layout.h"

namespace tvq {

// The layers that a family makes from a config.
struct StackLayers {
  std::vector<std::unique_ptr<Layer>> layers;
  DType state_dtype = DType::kFloat32;  // of what layers keep of single positions
  std::shared_ptr<KeyTap> key_tap;      // null unless layers quantize keys
  std::shared_ptr<RowReads> row_reads;  // null unless decode may leave rows of states out
  StateReads reads;                     // what decode reads
};

// The layout of a session's state.
StateLayout LayoutOf(const StackConfig& config, const StackLayers& layers);

class Stack : public DeviceModel, private Drafts {
 public:
  // The layers compute on the device of `options`.
  static absl::StatusOr<std::unique_ptr<Model>> Create(const StackConfig& config,
                                                       StackLayers layers, WeightSource& weights,
                                                       std::unique_ptr<Tokenizer> tokenizer,
                                                       const LoadOptions& options);

  int64_t StateBytes(int64_t tokens) const override { return layout_.Bytes(tokens); }
  bool StatesCut() const override { return layout_.AllInPages(); }
  std::vector<SectionInfo> StateSections(int64_t position) const override {
    return layout_.Sections(position);
  }
  absl::Status Prepare(const Preparation& preparation) override;
  absl::StatusOr<std::unique_ptr<State>> NewState() override {
    return SessionState::Create(*device_, layout_);
  }
  absl::Status Prefill(const PrefillChunk& chunk, Logits* logits) override;
  absl::Status Decode(std::span<const DecodeRow> rows, Logits* logits) override;
  Drafts* drafts() override { return draft_rows_ > 0 ? this : nullptr; }
  ReadCounts* read_counts() override { return layers_.row_reads.get(); }
  QuantizedKeys* quantized_keys() override { return layers_.key_tap.get(); }

 private:
  // Rows of logits computed at once when every position of a chunk is scored.
  static constexpr int64_t kScoreRows = 64;

  // Where a row of the last call of Decode was fed.
  struct FedRow {
    State* state = nullptr;
    int64_t position = 0;
    int64_t draft = -1;  // its number among the call's drafts; -1: no draft
  };

  // A recording of DecodeLayers for a number of rows. If a batch has fewer, the remaining rows
  // belong to no session.
  struct RecordedStep {
    int64_t rows = 0;
    std::unique_ptr<Recording> layers;
  };

  Stack(const StackConfig& config, StackLayers layers, std::unique_ptr<Tokenizer> tokenizer,
        const LoadOptions& options);
  absl::Status TakeMemory();

  // The first `n` rows.
  Matrix<float> x(int64_t n) const { return {x_, {n, config_.d_model}}; }
  Matrix<float> score_logits(int64_t n) const {
    return {score_logits_, {n, config_.common.vocab_size}};
  }
  // Computes the rows of inputs_ from their token ids.
  absl::Status Embed();
  // Logits of rows first to first + out.dim(0) - 1.
  absl::Status ComputeLogits(int64_t first, Matrix<float> out);

  // prefill.cc
  absl::Status PrefillLayers(const SessionState& state, int64_t rows);
  absl::Status Score(const PrefillChunk& chunk);

  // decode.cc
  int64_t rows() const override { return draft_rows_; }
  absl::Status Rewind(State& state, int64_t position) override;
  // Sets fed_: where each row of a call will be fed.
  absl::Status PlaceRows(std::span<const DecodeRow> rows);
  // Decodes rows of a call, at most config_.rows(), with their entries of fed_.
  absl::Status DecodeTile(std::span<const DecodeRow> rows, std::span<const FedRow> places,
                          Logits* logits);
  // The views of the rows' states for RowInputs::Set, for `padded` rows of each layer; those behind
  // `rows` are zero.
  std::vector<std::byte> Views(std::span<const FedRow> rows, size_t padded) const;
  // Takes the rows of inputs_ through the embedding and all layers.
  absl::Status DecodeLayers();
  // The smallest recorded step with at least `rows` rows; null if there is none.
  const RecordedStep* Recorded(int64_t rows) const;

  // prepare.cc
  absl::Status RecordSteps(int64_t decode_rows, bool record);
  // Runs everything else once at its largest size, so that no memory grows later.
  absl::Status Rehearse(const Preparation& preparation);

  const StackLayers layers_;
  const StateLayout layout_;
  int64_t draft_rows_ = 0;
  float *x_ = nullptr, *score_logits_ = nullptr;
  std::vector<RecordedStep> recorded_;  // by rows
  std::vector<FedRow> fed_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_STACK_H_
