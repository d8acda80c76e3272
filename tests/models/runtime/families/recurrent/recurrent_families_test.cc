// What is particular to the families with recurrent layers: their fields of config.json, the size
// of their states, and what a state that is loaded may hold.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "kernels/device/device.h"
#include "tests/models/runtime/families/recurrent/recurrent_models.h"
#include "tests/models/runtime/stack/fed_model.h"
#include "tests/models/runtime/stack/state_content.h"

namespace tvq {
namespace {

using testing::HasSubstr;

// The error of the config with `from`, which it has, replaced by `to`.
std::string Error(const std::string& json, const std::string& from, const std::string& to) {
  EXPECT_THAT(json, HasSubstr(from));
  const auto model =
      BuildRandom(absl::StrReplaceAll(json, {{from, to}}), MakeDevice("cpu", 1).value());
  return model.ok() ? "none" : std::string(model.status().message());
}

int64_t Padded(int64_t numbers) { return (4 * numbers + 63) / 64 * 64; }

TEST(RecurrentFamiliesTest, StatesHaveTheSizeOfTheirParts) {
  const auto bytes = [](const char* json, int64_t tokens) {
    return BuildRandom(json, MakeDevice("cpu", 1).value()).value()->StateBytes(tokens);
  };
  // A row before for each of both mixings, and 3 heads of 8 x 8.
  const int64_t rwkv = 3 * (2 * Padded(24) + Padded(3 * 8 * 8));
  EXPECT_EQ(bytes(kRwkv7, 1), rwkv);
  EXPECT_EQ(bytes(kRwkv7, 1 << 30), rwkv);
  // Three inputs of 48 + 2 * 2 * 10 channels, and 4 heads of 10 x 12.
  EXPECT_EQ(bytes(kMamba2, 1 << 30), 3 * (Padded(3 * 88) + Padded(4 * 10 * 12)));
  // Two layers of 3 x 64 and of 4 x 6 x 10, beside pages.
  const int64_t constant = 2 * (Padded(3 * 64) + Padded(4 * 6 * 10));
  EXPECT_EQ(bytes(kQwen35, 0), constant);
  EXPECT_GT(bytes(kQwen35, 257), constant + 2 * 256 * 2 * 2 * 2 * 8 * 4);
}

TEST(RecurrentFamiliesTest, TheContextOfTrainingDoesNotLimitAStateThatDoesNotGrow) {
  const std::string longer = absl::StrReplaceAll(
      kRwkv7, {{"\"head_dim\"", "\"max_position_embeddings\": 7, \"head_dim\""}});
  FedModel model(BuildRandom(longer, MakeDevice("cpu", 1).value()).value());
  const auto state = model.NewState();
  model.PrefillTo(*state, 64);
  EXPECT_EQ(state->position(), 64);
}

// Drafts are for devices whose states the host can copy; and only as many as are asked for.
TEST(RecurrentFamiliesTest, DraftsAreThoseThatWereAskedFor) {
  for (const char* json : {kRwkv7, kMamba2, kQwen35}) {
    const auto with = BuildRandom(json, MakeDevice("cpu", 1).value(), 3).value();
    ASSERT_NE(with->drafts(), nullptr) << json;
    EXPECT_EQ(with->drafts()->rows(), 3);
    const auto without = BuildRandom(json, MakeDevice("cpu", 1).value(), 0).value();
    EXPECT_EQ(without->drafts(), nullptr) << json;
  }
}

TEST(RecurrentFamiliesTest, NumbersAheadOfTheFirstTokenMustBeZero) {
  FedModel model(NewRecurrentModel<kMamba2>(MakeDevice("cpu", 1).value()));
  const auto state = model.NewState(), other = model.NewState();
  model.PrefillTo(*state, 2);
  const Content content = ContentOf(*state);
  EXPECT_TRUE(LoadContent(*other, 2, content).ok());
  const absl::Status earlier = LoadContent(*other, 1, content);
  EXPECT_THAT(std::string(earlier.message()), HasSubstr("inputs"));
  EXPECT_THAT(std::string(earlier.message()), HasSubstr("must be 0 at position 1"));
  EXPECT_EQ(other->position(), 0);
}

TEST(RecurrentFamiliesTest, RwkvNamesTheFieldThatIsWrong) {
  EXPECT_THAT(Error(kRwkv7, "\"head_dim\": 8", "\"head_dim\": 7"),
              HasSubstr("hidden_size is 24, must be a multiple of head_dim, which is 7"));
  EXPECT_EQ(Error(kRwkv7, "\"a_low_rank_dim\": 3, ", ""), "none");
  EXPECT_EQ(Error(kRwkv7, "\"head_dim\": 8", "\"head_dim\": null, \"num_heads\": 3"), "none");
  EXPECT_THAT(Error(kRwkv7, "\"head_dim\": 8", "\"head_dim\": 8, \"num_heads\": 2"),
              HasSubstr("num_heads is 2, must be hidden_size / head_dim, of 24 and 8"));
  EXPECT_THAT(Error(kRwkv7, "\"a_low_rank_dim\": 3", "\"a_low_rank_dim\": 0"),
              HasSubstr("a_low_rank_dim"));
  EXPECT_EQ(Error(kRwkv7, "\"head_dim\"", "\"value_dim\": 24, \"head_dim\""), "none");
  EXPECT_THAT(Error(kRwkv7, "\"head_dim\"", "\"attn\": {\"layers\": [1]}, \"head_dim\""),
              HasSubstr("attn must not be there"));
  EXPECT_THAT(Error(kRwkv7, "\"head_dim\"", "\"value_dim\": [24, 48, 24], \"head_dim\""),
              HasSubstr("value_dim is 48, must be hidden_size, which is 24"));
  EXPECT_THAT(Error(kRwkv7, "\"head_dim\"", "\"hidden_act\": \"relu\", \"head_dim\""),
              HasSubstr("hidden_act"));
}

// RandomWeights(3) as flash-linear-attention wrote them at first: what time mixing takes of the row
// before as one tensor.
class JoinedMixes : public WeightSource {
 public:
  absl::StatusOr<HostTensor> Get(std::string_view name, std::span<const int64_t> shape) override {
    if (!name.ends_with("attn.x_x")) return separate_->Get(name, shape);
    EXPECT_THAT(shape, testing::ElementsAre(6, 24));
    std::vector<float>& values = joined_[std::string(name)];
    for (const char of : std::string_view("rwkvag")) {
      const std::string one = std::string(name.substr(0, name.size() - 1)) + of;
      const std::vector<float> read =
          ToFloat32(separate_->Get(one, std::vector<int64_t>{1, 1, 24}).value()).value();
      values.insert(values.end(), read.begin(), read.end());
    }
    return HostTensor{values.data(), HostDType::kF32, {6, 24}};
  }
  bool Has(std::string_view name) const override { return !name.ends_with("attn.x_r"); }
  std::string Digest() const override { return separate_->Digest(); }

 private:
  const std::unique_ptr<WeightSource> separate_ = RandomWeights(3);
  std::map<std::string, std::vector<float>> joined_;
};

TEST(RecurrentFamiliesTest, RwkvMayHaveItsMixesInOneTensor) {
  JoinedMixes joined;
  FedModel model(NewRecurrentModel<kRwkv7>(MakeDevice("cpu", 1).value())),
      same(BuildRandom(kRwkv7, MakeDevice("cpu", 1).value(), 4, joined).value());
  const auto state = model.NewState(), other = same.NewState();
  EXPECT_EQ(model.PrefillTo(*state, 20), same.PrefillTo(*other, 20));
}

TEST(RecurrentFamiliesTest, MambaNamesTheFieldThatIsWrong) {
  EXPECT_THAT(Error(kMamba2, "\"n_groups\": 2", "\"n_groups\": 3"),
              HasSubstr("num_heads is 4, must be a multiple of n_groups, which is 3"));
  EXPECT_THAT(Error(kMamba2, "\"head_dim\": 12", "\"head_dim\": 11"),
              HasSubstr("num_heads is 4, must be 2 * 24 / 11 (expand * hidden_size / head_dim)"));
  EXPECT_THAT(Error(kMamba2, "\"n_groups\"", "\"conv_kernel\": 1, \"n_groups\""),
              HasSubstr("conv_kernel"));
  const auto with_limit = [](const std::string& limit) {
    return Error(kMamba2, "\"n_groups\"", "\"time_step_limit\": " + limit + ", \"n_groups\"");
  };
  EXPECT_EQ(with_limit(R"([0.1, {"__float__": "Infinity"}])"), "none");
  EXPECT_EQ(with_limit("[0.1, 0.3]"), "none");
  EXPECT_THAT(with_limit("[0.3, 0.1]"), HasSubstr("time_step_limit must be two numbers"));
  EXPECT_THAT(with_limit("[0, 1, 2]"), HasSubstr("time_step_limit must be two numbers"));
  EXPECT_EQ(with_limit("[0, 1e300]"), "none");
  EXPECT_THAT(with_limit("[-1, 0.1]"), HasSubstr("time_step_limit"));
  EXPECT_THAT(with_limit(R"([0, "inf"])"), HasSubstr("a list of numbers"));
}

TEST(RecurrentFamiliesTest, QwenNamesTheFieldThatIsWrong) {
  EXPECT_THAT(Error(kQwen35, "\"linear_num_value_heads\": 4", "\"linear_num_value_heads\": 5"),
              HasSubstr("linear_num_value_heads is 5, must be a multiple of "
                        "linear_num_key_heads, which is 2"));
  const auto with_types = [](const std::string& types) {
    return Error(kQwen35, "\"full_attention_interval\": 2", "\"layer_types\": " + types);
  };
  EXPECT_EQ(with_types(R"(["linear_attention", "full_attention", "full_attention",
                           "linear_attention"])"),
            "none");
  EXPECT_THAT(with_types(R"(["linear_attention"])"), HasSubstr("has 1 entries, must have 4"));
  EXPECT_THAT(with_types(R"(["linear_attention", "full_attention", "sliding_attention",
                             "linear_attention"])"),
              HasSubstr("must be full_attention or linear_attention"));
  EXPECT_THAT(Error(kQwen35, "\"full_attention_interval\"",
                    "\"conversion\": {}, \"full_attention_interval\""),
              HasSubstr("conversion must not be there"));
}

}  // namespace
}  // namespace tvq
