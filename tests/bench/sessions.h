// A batch of sessions that generate together.
#ifndef TVQ_TESTS_BENCH_SESSIONS_H_
#define TVQ_TESTS_BENCH_SESSIONS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/runtime/model.h"

namespace tvq::bench {

// Deterministic tokens for prompts: any ids will do, as long as they vary.
std::vector<int32_t> PromptTokens(int64_t count, int64_t vocab);

// Feeds `tokens` to `state` in the model's chunks; returns how many. Logits are computed after the
// last token only, into row 0.
absl::StatusOr<int64_t> FeedPrompt(Model& model, State& state, std::span<const int32_t> tokens,
                                   Logits& logits);

class Sessions {
 public:
  // Sessions at position 0. `model` and `device` outlive them.
  static absl::StatusOr<Sessions> Create(Model& model, Device& device, int64_t count);

  // Puts every session at `context` tokens, with states of its own.
  absl::Status Synthesize(int64_t context);

  // Feeds every session these tokens, and samples the token that Step feeds next.
  absl::Status Prefill(std::span<const int32_t> tokens);

  // Generates one token a session: feeds the last one, samples the next at temperature 1 (a
  // function of the session's place in the batch and of the position).
  absl::Status Step();

  // Hash of the logits of the last step: equal on one machine and build if nothing changed.
  absl::StatusOr<uint64_t> LogitsHash() const;

  // The tokens that Step feeds next.
  std::span<const int32_t> pending() const { return pending_; }

  int64_t size() const { return static_cast<int64_t>(states_.size()); }
  int64_t position() const { return states_[0]->position(); }

 private:
  absl::Status SampleNext();
  Sessions(Model& model, Device& device) : model_(&model), device_(&device) {}

  Model* model_;
  Device* device_;
  std::vector<std::unique_ptr<State>> states_;
  std::vector<int32_t> pending_;  // the token to feed next
  Logits logits_;
};

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_SESSIONS_H_
