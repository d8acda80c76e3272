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
  bool int8 = false;  // reads an int8 copy of the values instead of the exact values
  // In [0, 1). Decode may leave out rows of the state whose softmax weights together are at most
  // this share of the query's weights.
  float skip_mass = 0;
};

// Counts of what decode steps have read of states, where decode may leave rows out.
struct StateReadTotals {
  int64_t rows = 0;         // rows that had a weight, over all layers and key/value heads
  int64_t rows_read = 0;    // those of them that were read
  int64_t queries = 0;      // over all layers and heads
  double skipped_mass = 0;  // sum over all queries of the share that was left out
};

struct ModelInfo {
  std::string family;  // config.json's model_type
  // For a model that reads more than text: its name, and which parts are not served; else empty.
  std::string left_out;
  // 32 hexadecimal digits, a hash of config, weights and tokenizer: two models with the same
  // fingerprint compute the same function. Dtypes, which are chosen when the model is loaded, are
  // not part of it.
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
  // Bytes that a cache of all keys and values would take for each token, in state_dtype.
  int64_t cache_bytes_per_token = 0;
  bool predicts = true;  // next tokens; false: the model is an encoder
  // How often a token is rounded on its way through the model (models/verify/rounding.h).
  // `products`: matrix products, one after the other, without the logits. `kept`: places where a
  // state keeps something in state_dtype. `factors`: factors within attention that a prompt may
  // round if weights are not float32.
  int64_t products = 0;
  int64_t kept = 0;
  int64_t factors = 0;
  // int8 and int4: no matrix has a larger error by quantization than this, root mean square,
  // relative to the root mean square of its values; else 0.
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
  // Each state has one row in a call, and behind it rows of drafts if there are any (Drafts).
  State* state = nullptr;
  int32_t token = 0;
  int64_t logits_row = 0;
};

// Drafts: rows of a call of Decode that follow another row of the same state. What they fed to the
// state can be taken back. A capability of some families on some devices.
class Drafts {
 public:
  virtual ~Drafts() = default;
  virtual int64_t rows() const = 0;  // the most drafts in a call, of all states together
  // Takes back, to the last bit, what drafts of the last Decode fed to `state` from `position` on.
  // Nothing else may have touched the state since: no Prefill (of any state), CopyFrom, Load or
  // Reset. INVALID_ARGUMENT after a Prefill, and for a position that is not behind the state's
  // first row in that call.
  virtual absl::Status Rewind(State& state, int64_t position) = 0;
};

// Counts what decode steps leave out of states; a capability of families that can leave rows out,
// if LoadOptions has a skip_mass.
class ReadCounts {
 public:
  virtual ~ReadCounts() = default;
  virtual StateReadTotals totals() const = 0;  // over all calls of Decode
};

// A bidirectional encoder, which gives a vector for each token; a capability of some families. From
// Begin on a text occupies a state of its own, of Model::StateBytes(tokens) bytes. It is computed
// in any number of calls of Advance, so that other work can run in between; how the rows are
// divided among the calls changes no bits.
class Encoder {
 public:
  virtual ~Encoder() = default;
  virtual int64_t width() const = 0;
  // Rows to compute for a text: every layer reads it several times.
  virtual int64_t Rows(int64_t tokens) const = 0;
  // INVALID_ARGUMENT for no tokens or an id outside the vocabulary.
  virtual absl::Status Begin(State& state, std::span<const int32_t> tokens) = 0;
  // Computes the next `rows` rows.
  virtual absl::Status Advance(State& state, int64_t rows) = 0;
  // Gives the vectors, once all rows are computed. out, in host memory: [tokens, width()], or with
  // `mean` their mean over positions, [width()].
  virtual absl::Status Read(const State& state, bool mean, std::span<float> out) = 0;
};

// Shows the codes that keys are quantized to, and lets a caller replace them; a capability of
// families that quantize keys. Comparing two dtypes with the same codes forced on both separates
// the effect of rounding from that of flipped codes.
class QuantizedKeys {
 public:
  virtual ~QuantizedKeys() = default;

  // Called for every layer of every Prefill or Decode call: codes [rows, kv heads] in host memory,
  // in the order of the call's tokens. The tap may change them, to any code of the codebook.
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

  // The health of the model's device (Device::Health).
  virtual absl::Status Health() const { return absl::OkStatus(); }

  // Device bytes of a state after `tokens` tokens: a constant for constant-state families. For an
  // encoder: the bytes that a text of `tokens` tokens takes while it is encoded. Where states grow,
  // info().config.max_position is the longest context.
  virtual int64_t StateBytes(int64_t tokens) const = 0;
  // The sections that a state at `position` has (State::Sections); needs no state.
  virtual std::vector<SectionInfo> StateSections(int64_t position) const = 0;
  int64_t LargestStateBytes() const {
    return StateBytes(std::max<int64_t>(1, info().config.max_position));
  }
  bool StatesGrow() const { return LargestStateBytes() > StateBytes(1); }
  // Whether a state can be cut to its first tokens (State::CopyFirst): each section then holds one
  // entry for each token and nothing else, shape[1] = position.
  virtual bool StatesCut() const { return false; }

  // Device bytes of working memory for calls with up to `decode_rows` rows or one prefill chunk.
  virtual int64_t WorkspaceBytes(int64_t decode_rows) const = 0;

  // Does, before the first call, what calls of this size would otherwise do on the way: takes the
  // memory that they need and, on devices that can, records the operations of a decode step.
  // Nothing else may use the device meanwhile. Call it at most once; without it calls are slower.
  struct Preparation {
    int64_t decode_rows = 1;
    int64_t top_logprobs = 0;  // the most alternatives that will be asked for
    bool record = true;
  };
  virtual absl::Status Prepare(const Preparation&) { return absl::OkStatus(); }

  // The free memory of the model's device, which others may use too (Device::FreeMemory); and a
  // call that takes `bytes` of it for states at once (Device::Reserve).
  virtual std::optional<int64_t> FreeDeviceMemory() const { return std::nullopt; }
  virtual absl::Status ReserveStates(int64_t bytes) {
    static_cast<void>(bytes);
    return absl::OkStatus();
  }

  // A zeroed state at position 0. RESOURCE_EXHAUSTED when the device has no memory left.
  virtual absl::StatusOr<std::unique_ptr<State>> NewState() = 0;

  virtual absl::StatusOr<Logits> NewLogits(int64_t rows) = 0;

  // Copy a row of logits, [vocab_size], to and from host memory.
  virtual absl::Status ReadLogits(const Logits& logits, int64_t row, std::span<float> out) = 0;
  virtual absl::Status WriteLogits(std::span<const float> values, Logits* logits, int64_t row) = 0;

  // Feeds the chunk to its state. After an error the state must not be used again. INVALID_ARGUMENT
  // for a token id outside the vocabulary.
  virtual absl::Status Prefill(const PrefillChunk& chunk, Logits* logits) = 0;

  // Feeds a token to each state, or several tokens by adjacent rows (Drafts), which give the same
  // bits as a call for each row. A row's bits do not depend on the rows of other states.
  // INVALID_ARGUMENT if the rows of a state are not adjacent.
  virtual absl::Status Decode(std::span<const DecodeRow> rows, Logits* logits) = 0;

  // Chooses tokens from rows of `logits` (kernels/ops/sample.h).
  virtual absl::Status Sample(const Logits& logits, std::span<const SampleRow> rows,
                              int64_t max_top, std::span<TokenLogprob> chosen,
                              std::span<TokenLogprob> top, std::span<absl::Status> row_status) = 0;

  // Capabilities: nullptr where the model lacks them. A model that does not predict
  // (ModelInfo::predicts) has an encoder, and its Prefill and Decode are UNIMPLEMENTED.
  virtual Encoder* encoder() { return nullptr; }
  virtual Drafts* drafts() { return nullptr; }
  virtual ReadCounts* read_counts() { return nullptr; }
  virtual QuantizedKeys* quantized_keys() { return nullptr; }
};

// The most drafts in a call of Decode; 0 if the model has no Drafts.
inline int64_t DraftRows(Model& model) {
  return model.drafts() == nullptr ? 0 : model.drafts()->rows();
}

// All 0 if the model does not count.
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
