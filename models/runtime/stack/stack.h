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

// What a family makes of a config.
struct StackLayers {
  std::vector<std::unique_ptr<Layer>> layers;
  DType state_dtype = DType::kFloat32;  // of what they keep of positions
  std::shared_ptr<KeyTap> key_tap;      // of layers that quantize keys
  std::shared_ptr<RowReads> row_reads;  // of layers that may leave rows out of states
  StateReads reads;                     // as they read
};

// How a session's state lies.
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

  // A row of the last call of Decode.
  struct FedRow {
    State* state = nullptr;
    int64_t position = 0;
    int64_t draft = -1;  // its number among those behind another of the same state
  };

  // DecodeLayers written down for a number of rows. Rows that a batch lacks are of no session.
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
  // Those that inputs_ has, from their ids.
  absl::Status Embed();
  // Logits of rows first..first+out.dim(0).
  absl::Status ComputeLogits(int64_t first, Matrix<float> out);

  // prefill.cc
  absl::Status PrefillLayers(const SessionState& state, int64_t rows);
  absl::Status Score(const PrefillChunk& chunk);

  // decode.cc
  int64_t rows() const override { return draft_rows_; }
  absl::Status Rewind(State& state, int64_t position) override;
  // Notes in fed_ where the rows of a call go.
  absl::Status PlaceRows(std::span<const DecodeRow> rows);
  // Rows of the call and their places.
  absl::Status DecodeTile(std::span<const DecodeRow> rows, std::span<const FedRow> places,
                          Logits* logits);
  // What the ops are told of the rows' states, of `padded` rows for each layer.
  std::vector<std::byte> Views(std::span<const FedRow> rows, size_t padded) const;
  // One token of each row that inputs_ has, through all layers.
  absl::Status DecodeLayers();
  // The smallest recorded step that holds so many rows, or null.
  const RecordedStep* Recorded(int64_t rows) const;

  // prepare.cc
  absl::Status RecordSteps(int64_t decode_rows, bool record);
  // Everything else once, as large as it gets, so that nothing grows later.
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
