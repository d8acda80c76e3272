// A model that encodes: how its texts are cut, how long they may be, what it refuses. That its
// vectors are right is for tvq-verify to say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/runtime/registry/registry.h"
#include "tests/models/runtime/random_weights.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kWidth = 12, kVocab = 29;

nlohmann::json EncoderConfig(const std::string& block) {
  nlohmann::json json = {{"model_type", "vq_encoder"},
                         {"block", block},
                         {"vocab_size", kVocab},
                         {"d_model", kWidth},
                         {"d_k", 6},
                         {"d_v", 7},
                         {"n_code", 9},
                         {"n_layer", 2},
                         {"n_head", 2},
                         {"n_kv_head", 1},
                         {"output_norm", true},
                         {"prefill_chunk", 50},
                         {"tokenizer", {{"type", "ids"}}}};
  if (block == "standard") json["d_ff"] = 17;
  return json;
}

std::vector<int32_t> Tokens(int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    tokens[static_cast<size_t>(i)] = static_cast<int32_t>(i * i * 7 % kVocab);
  }
  return tokens;
}

class EncoderTest : public ::testing::TestWithParam<const char*> {
 protected:
  EncoderTest() : weights_(RandomWeights(3)) {
    LoadOptions options;
    options.device = MakeDevice("cpu", 2).value();
    options.max_model_len = 200'000;
    const auto config = tvq::Config::Parse(EncoderConfig(GetParam()).dump(), "test").value();
    auto model = BuildModel(config, *weights_, nullptr, options);
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    encoder_ = model_->encoder();
  }

  // Computed in steps of so many rows.
  std::vector<float> Encode(const std::vector<int32_t>& tokens, bool mean, int64_t step) {
    const auto count = static_cast<int64_t>(tokens.size());
    const std::unique_ptr<State> state = model_->NewState().value();
    EXPECT_TRUE(encoder_->Begin(*state, tokens).ok());
    EXPECT_EQ(state->bytes(), model_->StateBytes(count));
    for (int64_t done = 0; done < encoder_->Rows(count); done += step) {
      EXPECT_TRUE(encoder_->Advance(*state, step).ok());
    }
    std::vector<float> out(static_cast<size_t>((mean ? 1 : count) * kWidth));
    const absl::Status status = encoder_->Read(*state, mean, out);
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }
  std::vector<float> Encode(const std::vector<int32_t>& tokens, bool mean = false) {
    return Encode(tokens, mean, encoder_->Rows(static_cast<int64_t>(tokens.size())));
  }

  std::unique_ptr<WeightSource> weights_;
  std::unique_ptr<Model> model_;
  Encoder* encoder_ = nullptr;
};

TEST_P(EncoderTest, EncodesAndPredictsNothing) {
  ASSERT_NE(encoder_, nullptr);
  EXPECT_FALSE(model_->info().predicts);
  EXPECT_EQ(encoder_->width(), kWidth);
  const std::unique_ptr<State> state = model_->NewState().value();
  Logits logits = model_->NewLogits(1).value();
  const std::vector<int32_t> tokens{1, 2};
  PrefillChunk chunk{.state = state.get(), .tokens = tokens};
  EXPECT_EQ(model_->Prefill(chunk, &logits).code(), absl::StatusCode::kUnimplemented);
  const DecodeRow row{state.get(), 1, 0};
  EXPECT_EQ(model_->Decode({&row, 1}, &logits).code(), absl::StatusCode::kUnimplemented);
}

TEST_P(EncoderTest, HowATextIsCutChangesNoBits) {
  const std::vector<int32_t> tokens = Tokens(177);
  const std::vector<float> whole = Encode(tokens);
  for (const int64_t step : {1, 7, 50, 1000}) EXPECT_EQ(Encode(tokens, false, step), whole) << step;
}

TEST_P(EncoderTest, TheMeanIsThatOfAllVectors) {
  const std::vector<int32_t> tokens = Tokens(130);
  const std::vector<float> all = Encode(tokens), mean = Encode(tokens, /*mean=*/true);
  for (size_t c = 0; c < mean.size(); ++c) {
    double sum = 0;
    for (size_t i = c; i < all.size(); i += mean.size()) sum += all[i];
    EXPECT_FLOAT_EQ(mean[c], static_cast<float>(sum / 130));
  }
}

// A token's vector depends on what comes after it.
TEST_P(EncoderTest, LooksBothWays) {
  std::vector<int32_t> tokens = Tokens(60);
  const std::vector<float> before = Encode(tokens);
  tokens.back() = (tokens.back() + 1) % kVocab;
  const std::vector<float> after = Encode(tokens);
  double moved = 0;
  for (size_t i = 0; i < kWidth; ++i)
    moved = std::max<double>(moved, std::abs(after[i] - before[i]));
  EXPECT_GT(moved, 1e-4);
}

// Without positions a text that is repeated has the averages of the text, hence its vectors: so
// 100,000 tokens are held against 200. The sums are pairs of float32, so that 500 times as many
// addends cost nothing that would show; both are within 1e-4, the bound of the golden data, of what
// they should be.
TEST_P(EncoderTest, AHundredThousandTokensHaveTheVectorsOfTheTextTheyRepeat) {
  const std::vector<int32_t> once = Tokens(200);
  std::vector<int32_t> repeated;
  repeated.reserve(500 * once.size());
  for (int i = 0; i < 500; ++i) repeated.insert(repeated.end(), once.begin(), once.end());
  const std::vector<float> want = Encode(once), got = Encode(repeated);
  ASSERT_EQ(got.size(), 500 * want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i % want.size()], 2e-4) << i;
  // Linear: every layer passes twice over the rows.
  EXPECT_EQ(encoder_->Rows(100'000), 2 * 2 * 100'000);
  EXPECT_LT(model_->StateBytes(100'000), 2 * 500 * model_->StateBytes(200));
}

TEST_P(EncoderTest, NamesWhatIsWrong) {
  const std::unique_ptr<State> state = model_->NewState().value();
  EXPECT_THAT(std::string(encoder_->Begin(*state, {}).message()), HasSubstr("no tokens"));
  const std::vector<int32_t> bad{1, 29};
  EXPECT_THAT(std::string(encoder_->Begin(*state, bad).message()), HasSubstr("token 1 is id 29"));
  const std::vector<int32_t> good{1, 2};
  ASSERT_TRUE(encoder_->Begin(*state, good).ok());
  std::vector<float> out(2 * kWidth);
  EXPECT_EQ(encoder_->Read(*state, false, out).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(encoder_->Advance(*state, encoder_->Rows(2)).ok());
  EXPECT_THAT(std::string(encoder_->Read(*state, true, out).message()), HasSubstr("must have 12"));
  ASSERT_TRUE(state->Reset().ok());
  EXPECT_EQ(state->bytes(), 0);
  const auto read = [](const SectionInfo&, std::span<std::byte>) { return absl::OkStatus(); };
  EXPECT_TRUE(state->Load(0, read).ok());
  EXPECT_FALSE(state->Load(5, read).ok());
}

INSTANTIATE_TEST_SUITE_P(Blocks, EncoderTest, ::testing::Values("gated", "standard"));

}  // namespace
}  // namespace tvq
