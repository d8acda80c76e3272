// A deterministic model whose state is a hash of everything fed to it, so that any mix-up of states
// shows in the tokens, and which checks how the engine calls it. A state's sections are "hash" and,
// of `bytes_per_token` zeros for each token, "growth"; hash 0 is no valid content.
#ifndef TVQ_TESTS_SERVER_ENGINE_FAKE_MODEL_H_
#define TVQ_TESTS_SERVER_ENGINE_FAKE_MODEL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/runtime/model.h"

namespace tvq {

// Ids as in the bytes tokenizer: byte + 3; 0 pad, 1 end of sequence, 2 unknown.
inline constexpr int32_t kEos = 1;
inline constexpr int32_t kVocab = 259;
inline int32_t ByteId(char c) { return static_cast<unsigned char>(c) + 3; }
std::vector<int32_t> Ids(std::string_view text);

class FakeTokenizer : public Tokenizer {
 public:
  FakeTokenizer();
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const override;
  std::string_view TokenBytes(int32_t id) const override;
  bool IsSpecial(int32_t id) const override { return id < 3; }
  bool StripsLeadingSpace() const override { return false; }
  int32_t vocab_size() const override { return kVocab; }
  std::string_view type() const override { return "bytes"; }

 private:
  std::array<char, 256> bytes_;
};

struct FakeOptions {
  int64_t prefill_chunk = 8;
  int64_t max_position = 0;
  int64_t state_bytes = 1000;   // of an empty state
  int64_t bytes_per_token = 0;  // growth
  int64_t page_tokens = 0;      // of so many tokens at a time growth can be sealed; 0: never
  uint64_t seed = 1;            // another model
  float eos_bias = 0;           // raise it to end texts sooner
  int32_t poison = -1;          // after this token was fed, the logits are not finite
  int64_t poison_from = 0;      // if the state held so many tokens before it
  bool letters_only = true;     // else any byte, so that characters split
  int64_t draft_rows = 0;
  bool add_bos_token = false;                         // kEos, before a text that begins a context
  const ConversationWriter* conversations = nullptr;  // must outlive the model
};

class FakeModel : public Model, private Drafts {
 public:
  explicit FakeModel(FakeOptions options = {});
  ~FakeModel() override;

  const ModelInfo& info() const override { return info_; }
  const Tokenizer& tokenizer() const override { return tokenizer_; }
  int64_t StateBytes(int64_t tokens) const override;
  int64_t PageBytes() const { return options_.page_tokens * options_.bytes_per_token; }
  std::vector<SectionInfo> StateSections(int64_t position) const override;
  int64_t WorkspaceBytes(int64_t) const override { return 0; }
  absl::StatusOr<std::unique_ptr<State>> NewState() override;
  absl::StatusOr<Logits> NewLogits(int64_t rows) override;
  absl::Status ReadLogits(const Logits& logits, int64_t row, std::span<float> out) override;
  absl::Status WriteLogits(std::span<const float> values, Logits* logits, int64_t row) override;
  absl::Status Prefill(const PrefillChunk& chunk, Logits* logits) override;
  absl::Status Decode(std::span<const DecodeRow> rows, Logits* logits) override;
  Drafts* drafts() override { return options_.draft_rows > 0 ? this : nullptr; }
  int64_t rows() const override { return options_.draft_rows; }
  absl::Status Rewind(State& state, int64_t position) override;
  absl::Status Sample(const Logits& logits, std::span<const SampleRow> rows, int64_t max_top,
                      std::span<TokenLogprob> chosen, std::span<TokenLogprob> top,
                      std::span<absl::Status> row_status) override;

  // log p(id) after the tokens `context`, as Prefill and Sample report it.
  float Logprob(std::span<const int32_t> context, int32_t id) const;

  // Set before the model is used: called at the start of every Prefill, Decode, Sample, NewState,
  // ReadLogits and WriteLogits with its name; a status that is not OK is returned instead of
  // computing.
  std::function<absl::Status(std::string_view call)> on_call;

  std::atomic<int64_t> live_states = 0;
  std::atomic<int64_t> prefilled_tokens = 0;
  std::atomic<int64_t> decoded_rows = 0;
  std::atomic<int64_t> poisoned_rows = 0;  // of them, whose logits are not finite
  std::atomic<int64_t> calls = 0;

 private:
  absl::Status Enter(std::string_view call);
  absl::Status Feed(const PrefillChunk& chunk, Logits* logits);
  void Fill(uint64_t hash, std::span<float> logits) const;

  FakeOptions options_;
  FakeTokenizer tokenizer_;
  ModelInfo info_;
  std::atomic<bool> inside_ = false;
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_ENGINE_FAKE_MODEL_H_
