// A model whose sessions are fed the tokens of one text, as prompts or step by step.
#ifndef TVQ_TESTS_MODELS_RUNTIME_STACK_FED_MODEL_H_
#define TVQ_TESTS_MODELS_RUNTIME_STACK_FED_MODEL_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "models/runtime/model.h"

namespace tvq {

class FedModel {
 public:
  static constexpr int64_t kVocab = 29;  // of the model
  static constexpr int64_t kRows = 8;    // of Step, at most
  static constexpr int64_t kLogitsBytes = kRows * kVocab * 4;

  explicit FedModel(std::unique_ptr<Model> model) : model_(std::move(model)) {
    logits_ = model_->NewLogits(kRows).value();
    EXPECT_EQ(logits_.view.dim(1), kVocab);
    for (int32_t i = 0; i < 400; ++i) tokens_.push_back(i * i % kVocab);
  }

  Model& model() { return *model_; }
  std::unique_ptr<State> NewState() { return model_->NewState().value(); }
  std::vector<float> Row(int64_t row) {
    std::vector<float> out(kVocab);
    EXPECT_TRUE(model_->ReadLogits(logits_, row, out).ok());
    return out;
  }
  int32_t TokenAt(int64_t position) const { return tokens_[static_cast<size_t>(position)]; }
  // Feeds tokens [state.position(), to).
  std::vector<float> PrefillTo(State& state, int64_t to) {
    while (state.position() < to) {
      const int64_t n = NextChunk(state.position(), to - state.position(), 64);
      const auto chunk =
          std::span(tokens_).subspan(static_cast<size_t>(state.position()), static_cast<size_t>(n));
      EXPECT_TRUE(
          model_->Prefill({.state = &state, .tokens = chunk, .logits_row = 0}, &logits_).ok());
    }
    return Row(0);
  }
  std::vector<float> StepTo(State& state, int64_t to) {
    while (state.position() < to) Step({&state});
    return Row(0);
  }
  // Feeds each state its next token. Rows of logits in their order.
  std::vector<std::vector<float>> Step(const std::vector<State*>& states) {
    std::vector<DecodeRow> rows;
    rows.reserve(states.size());
    for (State* const state : states) {
      rows.push_back({state, tokens_[static_cast<size_t>(state->position())], std::ssize(rows)});
    }
    const absl::Status stepped = model_->Decode(rows, &logits_);
    EXPECT_TRUE(stepped.ok()) << stepped;
    std::vector<std::vector<float>> logits;
    logits.reserve(rows.size());
    for (int64_t row = 0; row < std::ssize(rows); ++row) logits.push_back(Row(row));
    return logits;
  }

 private:
  const std::unique_ptr<Model> model_;
  Logits logits_;
  std::vector<int32_t> tokens_;
};

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_RUNTIME_STACK_FED_MODEL_H_
