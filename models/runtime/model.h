// What the engine knows of a model, whatever its family.
#ifndef TVQ_MODELS_RUNTIME_MODEL_H_
#define TVQ_MODELS_RUNTIME_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/ops/sample.h"
#include "kernels/ops/token_logprobs.h"
#include "models/runtime/config/config.h"
#include "models/runtime/state.h"
#include "models/runtime/text/conversation_writer.h"
#include "models/runtime/tokenizer/tokenizer.h"

namespace tvq {

// What a decode step reads of a state, where the family has a choice (docs/state.md).
struct StateReads {
  bool int8 = false;  // a copy of the values instead of the exact ones
  // [0, 1): of the sum of a query's softmax weights, the share that the rows left out may have, all
  // of them together.
  float skip_mass = 0;
};

// What decode steps have read of states of which rows may be left out.
struct StateReadTotals {
  int64_t rows = 0;         // that had a weight, of every layer and key/value head
  int64_t rows_read = 0;    // of them
  int64_t queries = 0;      // of every layer and head
  double skipped_mass = 0;  // of all queries together
};

struct ModelInfo {
  std::string family;  // config.json's model_type
  // Of a model that reads more than text: which one, and what of it is not served; else empty.
  std::string left_out;
  // 32 hexadecimal digits over config, weights and tokenizer: two models with the same one compute
  // the same function. Not over dtypes, which are chosen when the model is loaded.
  std::string fingerprint;
  CommonConfig config;
  GenerationDefaults generation;
  // The model's own chat templates; null: it has none.
  std::shared_ptr<const ConversationWriter> conversations;
  DType dtype = DType::kFloat32;        // of the weights
  DType state_dtype = DType::kFloat32;  // of recent values in a state
  StateReads reads;
  int64_t parameters = 0;
  int64_t weight_bytes = 0;  // device memory held by the weights
  // What a cache of all keys and values would take of each token, in state_dtype.
  int64_t cache_bytes_per_token = 0;
  bool predicts = true;  // next tokens; a model that does not encodes
  // Where a token's way through the model is rounded (models/verify/rounding.h): matrix products
  // one behind the other, without the logits', places where what a state keeps is of state_dtype,
  // and where weights are not float32 factors within attention that a prompt may round.
  int64_t products = 0;
  int64_t kept = 0;
  int64_t factors = 0;
  // int8, int4: no matrix lost more than this part of its root mean square when it was quantized;
  // else 0.
  double weight_rounding = 0;
};

// Rows of logits [rows, vocab] in the memory of the model's device.
struct Logits {
  Buffer data;
  Matrix<float> view;
};

// Consecutive tokens of one sequence. The chunk must not cross a multiple of `prefill_chunk`:
// NextChunk gives the lengths that keep a session's bits independent of scheduling.
struct PrefillChunk {
  State* state = nullptr;
  std::span<const int32_t> tokens;
  int64_t logits_row = -1;  // receives the logits after the last token; -1: not wanted

  // Scoring: log p(targets[i] | everything up to tokens[i]); empty, or as long as `tokens`.
  std::span<const int32_t> targets;
  std::span<TokenLogprob> target_logprobs;  // as long as `targets`
  int64_t top_logprobs = 0;
  std::span<TokenLogprob> top;  // targets * top_logprobs
};

struct DecodeRow {
  State* state = nullptr;  // once in a call, but for drafts right behind it (Drafts)
  int32_t token = 0;
  int64_t logits_row = 0;
};

// Rows of a call of Decode, of all states together, that follow another of the same state, since
// what they fed can be taken back; a capability of some families on some devices.
class Drafts {
 public:
  virtual ~Drafts() = default;
  virtual int64_t rows() const = 0;  // of a call, at most
  // Takes back, to the last bit, what such rows of the last Decode fed to `state` from `position`
  // on, if nothing else touched it since: no Prefill (of any state), CopyFrom, Load or Reset.
  // INVALID_ARGUMENT after a Prefill, and for a position not behind the call's first row of it.
  virtual absl::Status Rewind(State& state, int64_t position) = 0;
};

// Counts what decode steps leave out of states; a capability of families that may, where
// LoadOptions has a skip_mass.
class ReadCounts {
 public:
  virtual ~ReadCounts() = default;
  virtual StateReadTotals totals() const = 0;  // of all calls of Decode
};

// Vectors of a bidirectional encoder; a capability of some families. A text is in a state of its
// own from Begin on, whose size for so many tokens is StateBytes. It is computed in as many calls
// as wanted, so that others take their turns; how it is cut changes no bits.
class Encoder {
 public:
  virtual ~Encoder() = default;
  virtual int64_t width() const = 0;
  // Rows to compute for a text: every layer reads it several times.
  virtual int64_t Rows(int64_t tokens) const = 0;
  // INVALID_ARGUMENT for no tokens or an id outside the vocabulary.
  virtual absl::Status Begin(State& state, std::span<const int32_t> tokens) = 0;
  // Computes so many rows more.
  virtual absl::Status Advance(State& state, int64_t rows) = 0;
  // When all rows are computed. out: [tokens, width()], or with `mean`, over positions, [width()],
  // host memory.
  virtual absl::Status Read(const State& state, bool mean, std::span<float> out) = 0;
};

// A look at, and a hand on, the codes that keys are quantized to; a capability of families that
// quantize keys. Comparing dtypes with the codes forced to be equal separates rounding from flipped
// codes.
class QuantizedKeys {
 public:
  virtual ~QuantizedKeys() = default;

  // Called for every layer of every Prefill or Decode call: codes [rows, kv heads] in host memory,
  // in the order of the call's tokens. May change them; they must stay below the number of codes.
  using Tap = std::function<void(int64_t layer, Matrix<int32_t> codes)>;
  virtual void SetTap(Tap tap) = 0;
};

// info, tokenizer, StateBytes, StateSections, StatesCut, NewState and Health may be used from any
// thread; everything else from one thread at a time, the one that runs the device.
class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;

  // That of the model's device (Device::Health).
  virtual absl::Status Health() const { return absl::OkStatus(); }

  // Device bytes of a state after `tokens` tokens: a constant for constant-state families. Of an
  // encoder, of a text while it is encoded. Where
  // states grow, info().config.max_position says up to where.
  virtual int64_t StateBytes(int64_t tokens) const = 0;
  // The sections of a state at `position` (State::Sections), without one.
  virtual std::vector<SectionInfo> StateSections(int64_t position) const = 0;
  int64_t LargestStateBytes() const {
    return StateBytes(std::max<int64_t>(1, info().config.max_position));
  }
  bool StatesGrow() const { return LargestStateBytes() > StateBytes(1); }
  // Whether a state is what each token has left and nothing more, so that its first tokens are a
  // state (State::CopyFirst): every section has shape[1] = position.
  virtual bool StatesCut() const { return false; }

  // Device bytes of working memory for calls with up to `decode_rows` rows or one prefill chunk.
  virtual int64_t WorkspaceBytes(int64_t decode_rows) const = 0;

  // Does before the first call what calls of this size would have to do in between: gets the memory
  // that they need, and has the device record the operations of a step, if it does: nothing else
  // may use the device meanwhile. At most once; without it calls are slower.
  struct Preparation {
    int64_t decode_rows = 1;
    int64_t top_logprobs = 0;  // the most alternatives that will be asked for
    bool record = true;
  };
  virtual absl::Status Prepare(const Preparation&) { return absl::OkStatus(); }

  // Of the model's device, which may be that of others too: memory of its own that is free, and
  // taking `bytes` of it for states (Device::FreeMemory, Device::Reserve).
  virtual std::optional<int64_t> FreeDeviceMemory() const { return std::nullopt; }
  virtual absl::Status ReserveStates(int64_t bytes) {
    static_cast<void>(bytes);
    return absl::OkStatus();
  }

  // A zeroed state at position 0. RESOURCE_EXHAUSTED when the device has no memory left.
  virtual absl::StatusOr<std::unique_ptr<State>> NewState() = 0;

  virtual absl::StatusOr<Logits> NewLogits(int64_t rows) = 0;

  // A row of logits to and from host memory, [vocab_size].
  virtual absl::Status ReadLogits(const Logits& logits, int64_t row, std::span<float> out) = 0;
  virtual absl::Status WriteLogits(std::span<const float> values, Logits* logits, int64_t row) = 0;

  // Feeds the chunk to its state, which after an error is not to be used again. INVALID_ARGUMENT
  // for a token id outside the vocabulary.
  virtual absl::Status Prefill(const PrefillChunk& chunk, Logits* logits) = 0;

  // Feeds a token to each state, or several by rows next to one another, with the bits of a call
  // each. A row's bits do not depend on the others. INVALID_ARGUMENT for a state that comes again.
  virtual absl::Status Decode(std::span<const DecodeRow> rows, Logits* logits) = 0;

  // Chooses tokens from rows of `logits` (kernels/ops/sample.h).
  virtual absl::Status Sample(const Logits& logits, std::span<const SampleRow> rows,
                              int64_t max_top, std::span<TokenLogprob> chosen,
                              std::span<TokenLogprob> top, std::span<absl::Status> row_status) = 0;

  // Capabilities: nullptr where the model has none. What `predicts` not has an encoder, and Prefill
  // and Decode are UNIMPLEMENTED.
  virtual Encoder* encoder() { return nullptr; }
  virtual Drafts* drafts() { return nullptr; }
  virtual ReadCounts* read_counts() { return nullptr; }
  virtual QuantizedKeys* quantized_keys() { return nullptr; }
};

// 0 of a model that takes nothing back.
inline int64_t DraftRows(Model& model) {
  return model.drafts() == nullptr ? 0 : model.drafts()->rows();
}

// All 0 of a model that does not count.
inline StateReadTotals ReadTotals(Model& model) {
  return model.read_counts() == nullptr ? StateReadTotals() : model.read_counts()->totals();
}

// Tokens of the chunk that starts at `position` when `remaining` tokens are to be fed: up to the
// next multiple of `prefill_chunk`.
inline int64_t NextChunk(int64_t position, int64_t remaining, int64_t prefill_chunk) {
  const int64_t to_boundary = prefill_chunk - position % prefill_chunk;
  return remaining < to_boundary ? remaining : to_boundary;
}

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_MODEL_H_
