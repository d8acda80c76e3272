// A model whose layers are of several kinds: quantized keys, every key in pages, sums of features.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "models/runtime/families/blocks.h"
#include "models/runtime/families/family.h"
#include "models/runtime/layers/attention/linear/core.h"
#include "models/runtime/layers/attention/softmax/core.h"
#include "models/runtime/layers/attention/vq/core.h"
#include "models/runtime/stack/stack.h"
#include "tests/models/runtime/random_weights.h"
#include "tests/models/runtime/stack/state_content.h"

namespace tvq {
namespace {

constexpr char kConfig[] = R"({
  "model_type": "transformer_vq", "vocab_size": 29, "d_model": 24, "d_k": 8, "d_v": 16, "n_layer": 6,
  "n_head": 4, "n_kv_head": 2, "n_code": 5, "block_len": 8, "mem_len": 7, "prefill_chunk": 64,
  "tokenizer": {"type": "bytes"}, "block": "standard", "d_ff": 32})";

class MixedLayersTest : public testing::Test {
 protected:
  MixedLayersTest() {
    TransformerConfig config =
        ParseTransformerConfig(Config::Parse(kConfig, "test").value(), TransformerVqFamily().fields)
            .value();
    config.common.max_position = 1000;
    TransformerConfig linear = config;
    linear.n_code = 0;
    LoadOptions options;
    options.device = device_;
    const VqTables tables(config);
    StackLayers made;
    made.layers =
        MakeBlocks(config, *device_, [&](int64_t block) -> std::unique_ptr<AttentionCore> {
          if (block % 3 == 0) {
            return std::make_unique<VqCore>(config, *device_, DType::kFloat32, StateReads(),
                                            /*draft_rows=*/4, tables, block);
          }
          if (block % 3 == 1) {
            return std::make_unique<SoftmaxCore>(config, *device_, DType::kFloat32,
                                                 tables.relative);
          }
          return std::make_unique<LinearCore>(linear, *device_);
        });
    made.key_tap = tables.tap;
    const std::unique_ptr<WeightSource> weights = RandomWeights(3);
    auto model = Stack::Create(config, std::move(made), *weights, nullptr, options);
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    logits_ = model_->NewLogits(8).value();
    for (int32_t i = 0; i < 400; ++i) tokens_.push_back(i * i % 29);
  }

  std::unique_ptr<State> NewState() { return model_->NewState().value(); }
  std::vector<float> Row(int64_t row) {
    std::vector<float> out(29);
    EXPECT_TRUE(model_->ReadLogits(logits_, row, out).ok());
    return out;
  }
  // Feeds tokens_[state.position(), to).
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
    while (state.position() < to) {
      const DecodeRow row{&state, tokens_[static_cast<size_t>(state.position())], 0};
      EXPECT_TRUE(model_->Decode({&row, 1}, &logits_).ok());
    }
    return Row(0);
  }

  const std::shared_ptr<Device> device_ = MakeDevice("cpu", 2).value();
  std::unique_ptr<Model> model_;
  Logits logits_;
  std::vector<int32_t> tokens_;
};

TEST_F(MixedLayersTest, PromptsAgreeWithSteps) {
  const auto prompted = NewState(), stepped = NewState();
  const std::vector<float> a = PrefillTo(*prompted, 300), b = StepTo(*stepped, 300);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4) << i;
  EXPECT_EQ(prompted->bytes(), model_->StateBytes(300));
}

TEST_F(MixedLayersTest, WhatIsSavedForkedAndRewoundGoesOnWithTheSameBits) {
  const auto original = NewState();
  PrefillTo(*original, 250);
  const Content saved = ContentOf(*original);
  EXPECT_EQ(original->Sections(), model_->StateSections(250));
  const auto fork = NewState(), restored = NewState();
  ASSERT_TRUE(fork->CopyFrom(*original).ok());
  PrefillTo(*restored, 77);  // of another past
  ASSERT_TRUE(LoadContent(*restored, 250, saved).ok());
  const std::vector<float> expected = StepTo(*original, 270);  // over the end of a page
  const Content after = ContentOf(*original);
  EXPECT_EQ(StepTo(*fork, 270), expected);
  EXPECT_EQ(StepTo(*restored, 270), expected);
  EXPECT_EQ(ContentOf(*fork), after);
  EXPECT_EQ(ContentOf(*restored), after);
  ASSERT_TRUE(LoadContent(*original, 250, saved).ok());  // rewound
  EXPECT_EQ(StepTo(*original, 270), expected);
  EXPECT_EQ(ContentOf(*original), after);
}

TEST_F(MixedLayersTest, BatchGivesEachRowTheBitsItHasAlone) {
  std::vector<std::unique_ptr<State>> alone, batched;
  for (const int64_t position : {1, 9, 254, 255, 256, 300}) {
    alone.push_back(NewState());
    batched.push_back(NewState());
    PrefillTo(*alone.back(), position);
    ASSERT_TRUE(batched.back()->CopyFrom(*alone.back()).ok());
  }
  for (int step = 0; step < 3; ++step) {
    std::vector<DecodeRow> rows;
    for (size_t i = 0; i < batched.size(); ++i) {
      const int32_t token = tokens_[static_cast<size_t>(batched[i]->position())];
      rows.push_back({batched[i].get(), token, static_cast<int64_t>(i)});
    }
    ASSERT_TRUE(model_->Decode(rows, &logits_).ok());
    std::vector<std::vector<float>> together;
    for (size_t i = 0; i < rows.size(); ++i) together.push_back(Row(static_cast<int64_t>(i)));
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(StepTo(*alone[i], alone[i]->position() + 1), together[i]) << i;
    }
  }
}

// A layer that cannot take back what it was fed keeps all from it.
TEST_F(MixedLayersTest, TakesNoDrafts) { EXPECT_EQ(model_->DraftRows(), 0); }

// A standard block rounds at four products.
TEST_F(MixedLayersTest, CountsWhatItsLayersRound) {
  EXPECT_EQ(model_->info().products, 6 * 4);
  EXPECT_EQ(model_->info().kept, 2 * 1 + 2 * 2);
  EXPECT_EQ(model_->info().factors, 2 * 2);
}

}  // namespace
}  // namespace tvq
