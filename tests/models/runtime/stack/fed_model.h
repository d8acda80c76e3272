// A model whose sessions are fed the tokens of one text, as prompts or step by step.
#ifndef TVQ_TESTS_MODELS_RUNTIME_STACK_FED_MODEL_H_
#define TVQ_TESTS_MODELS_RUNTIME_STACK_FED_MODEL_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
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
  }

  Model& model() { return *model_; }
  std::unique_ptr<State> NewState() { return model_->NewState().value(); }
  std::vector<float> Row(int64_t row) {
    std::vector<float> out(kVocab);
    EXPECT_TRUE(model_->ReadLogits(logits_, row, out).ok());
    return out;
  }
  static int32_t TokenAt(int64_t position) {
    return static_cast<int32_t>((static_cast<uint64_t>(position) * 0x9e3779b97f4a7c15U >> 40) %
                                kVocab);
  }
  // Feeds tokens [state.position(), to).
  std::vector<float> PrefillTo(State& state, int64_t to) {
    while (state.position() < to) {
      const int64_t n = NextChunk(state.position(), to - state.position(), 64);
      std::vector<int32_t> chunk(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) {
        chunk[static_cast<size_t>(i)] = TokenAt(state.position() + i);
      }
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
      rows.push_back({state, TokenAt(state->position()), std::ssize(rows)});
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
};

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_RUNTIME_STACK_FED_MODEL_H_
