// A model whose layers are of several kinds: quantized keys, every key in pages, sums of features.
#ifndef TVQ_TESTS_MODELS_RUNTIME_STACK_MIXED_MODEL_H_
#define TVQ_TESTS_MODELS_RUNTIME_STACK_MIXED_MODEL_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/families/family.h"
#include "models/runtime/families/transformer/blocks.h"
#include "models/runtime/layers/attention/linear/core.h"
#include "models/runtime/layers/attention/softmax/core.h"
#include "models/runtime/layers/attention/vq/core.h"
#include "models/runtime/stack/stack.h"
#include "tests/models/runtime/random_weights.h"

namespace tvq {

struct MixedOptions {
  std::string block = "standard", position_bias = "relative";
  StateReads reads;
  // What the stack gets in the place of a layer; empty: the layer.
  std::function<std::unique_ptr<Layer>(std::unique_ptr<Layer>)> wrap;
  std::function<void(int64_t done, int64_t total)> progress;
};

class MixedModel {
 public:
  static constexpr int64_t kBlocks = 6, kVqBlocks = 2, kHeads = 4, kVocab = 29;
  static constexpr int64_t kRows = 8;  // of Step, at most
  static constexpr int64_t kLogitsBytes = kRows * kVocab * 4;

  explicit MixedModel(std::shared_ptr<Device> device, const MixedOptions& mixed = {})
      : device_(std::move(device)) {
    TransformerConfig config = ParseTransformerConfig(Config::Parse(Json(mixed), "test").value(),
                                                      TransformerVqFamily().fields)
                                   .value();
    config.common.max_position = 1000;
    LoadOptions options;
    options.device = device_;
    options.progress = mixed.progress;
    StackLayers made = Layers(config, mixed.reads);
    for (auto& layer : made.layers) {
      if (mixed.wrap) layer = mixed.wrap(std::move(layer));
    }
    const std::unique_ptr<WeightSource> weights = RandomWeights(3);
    auto model = Stack::Create(config, std::move(made), *weights, nullptr, options);
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    logits_ = model_->NewLogits(kRows).value();
    for (int32_t i = 0; i < 400; ++i) tokens_.push_back(i * i % 29);
  }

  Model& model() { return *model_; }
  std::unique_ptr<State> NewState() { return model_->NewState().value(); }
  std::vector<float> Row(int64_t row) {
    std::vector<float> out(kVocab);
    EXPECT_TRUE(model_->ReadLogits(logits_, row, out).ok());
    return out;
  }
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
    for (State* const state : states) {
      rows.push_back({state, tokens_[static_cast<size_t>(state->position())], std::ssize(rows)});
    }
    const absl::Status stepped = model_->Decode(rows, &logits_);
    EXPECT_TRUE(stepped.ok()) << stepped;
    std::vector<std::vector<float>> logits;
    for (int64_t row = 0; row < std::ssize(rows); ++row) logits.push_back(Row(row));
    return logits;
  }

 private:
  static std::string Json(const MixedOptions& mixed) {
    return absl::StrCat(
        R"({"model_type": "transformer_vq", "vocab_size": 29, "d_model": 24, "d_k": 8, "d_v": 16,
            "n_layer": 6, "n_head": 4, "n_kv_head": 2, "n_code": 5, "block_len": 8, "mem_len": 7,
            "prefill_chunk": 64, "tokenizer": {"type": "bytes"}, "position_bias": ")",
        mixed.position_bias, R"(", "block": ")", mixed.block,
        mixed.block == "standard" ? R"(", "d_ff": 32})" : R"("})");
  }

  StackLayers Layers(const TransformerConfig& config, const StateReads& reads) {
    TransformerConfig linear = config;
    linear.n_code = 0;
    VqTables tables(config);
    if (reads.skip_mass > 0)
      tables.row_reads = std::make_shared<RowReads>(config.n_head, config.n_kv_head, *device_);
    StackLayers made;
    made.layers =
        MakeBlocks(config, *device_, [&](int64_t block) -> std::unique_ptr<AttentionCore> {
          if (block % 3 == 0) {
            return std::make_unique<VqCore>(config, *device_, DType::kFloat32, reads,
                                            /*draft_rows=*/4, tables, block);
          }
          if (block % 3 == 1) {
            return std::make_unique<SoftmaxCore>(config, *device_, DType::kFloat32,
                                                 tables.relative);
          }
          return std::make_unique<LinearCore>(linear, *device_);
        });
    made.key_tap = tables.tap;
    made.row_reads = tables.row_reads;
    return made;
  }

  const std::shared_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  Logits logits_;
  std::vector<int32_t> tokens_;
};

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_RUNTIME_STACK_MIXED_MODEL_H_
