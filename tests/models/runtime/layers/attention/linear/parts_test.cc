#include "models/runtime/layers/attention/linear/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "models/runtime/stack/session_state.h"
#include "tests/models/runtime/stack/state_content.h"
#include "tests/models/synthetic_state.h"

namespace tvq {
namespace {

class LinearPartsTest : public testing::Test {
 protected:
  std::unique_ptr<SessionState> New() { return SessionState::Create(*device_, layout_).value(); }

  Content Synthesized(int64_t position) {
    const std::unique_ptr<SessionState> state = New();
    EXPECT_TRUE(Synthesize(*state, layout_.Sections(position), position, 5).ok());
    return ContentOf(*state);
  }

  // The message of a load into a state that held something else; afterwards it is as after Reset.
  std::string Problem(int64_t position, const Content& content) {
    const std::unique_ptr<SessionState> state = New();
    EXPECT_TRUE(Synthesize(*state, layout_.Sections(70), 70, 6).ok());
    const absl::Status status = LoadContent(*state, position, content);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(state->position(), 0);
    EXPECT_EQ(ContentOf(*state), ContentOf(*New()));
    return std::string(status.message());
  }

  // Two layers, two key/value heads, three features, values of five.
  const LinearParts parts_{{.kv_heads = 2, .features = 3, .value = 5}};
  const StateLayout layout_{{{"layers.0.", &parts_}, {"layers.1.", &parts_}}, 0};
  const std::unique_ptr<Device> device_ = MakeDevice("cpu", 1).value();
};

// docs/state.md: per layer G (K V (4 + 4) + K (4 + 4)), each part rounded up to 64 bytes.
TEST_F(LinearPartsTest, BytesFollowTheFormula) {
  const auto up = [](int64_t n) { return (n + 63) / 64 * 64; };
  EXPECT_EQ(layout_.Bytes(1), 2 * (2 * up(2 * 3 * 5 * 4) + 2 * up(2 * 3 * 4)));
  EXPECT_EQ(New()->bytes(), layout_.Bytes(1));
  EXPECT_EQ(layout_.Bytes(1'000'000), layout_.Bytes(1));
}

TEST_F(LinearPartsTest, SectionsAreThePartsAsTheyLie) {
  const std::unique_ptr<SessionState> state = New();
  ASSERT_TRUE(state->Extend(1).ok());
  const LinearState layer = parts_.At(state->Parts(1));
  float next = 1;
  const auto fill = [&](float* part, int64_t count) {
    for (int64_t i = 0; i < count; ++i) part[i] = next++;
  };
  fill(layer.key_value_sum, 30);
  fill(layer.key_value_carry, 30);
  fill(layer.key_sum, 6);
  fill(layer.key_carry, 6);
  std::vector<float> expected(72), found;
  std::iota(expected.begin(), expected.end(), 1.0F);
  const Content content = ContentOf(*state);
  for (const char* name : {"key_value_sum", "key_value_carry", "key_sum", "key_carry"}) {
    const auto values = ValuesOf<float>(content, std::string("layers.1.") + name);
    found.insert(found.end(), values.begin(), values.end());
  }
  EXPECT_EQ(found, expected);
}

TEST_F(LinearPartsTest, LoadGivesTheSameContent) {
  for (const int64_t position : {0, 1, 1000}) {
    const std::unique_ptr<SessionState> state = New();
    ASSERT_TRUE(Synthesize(*state, layout_.Sections(77), 77, 6).ok());
    const Content content = Synthesized(position);
    const absl::Status status = LoadContent(*state, position, content);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(state->position(), position);
    EXPECT_EQ(ContentOf(*state), content);
  }
}

TEST_F(LinearPartsTest, RefusesWhatNoTokensLeave) {
  for (const char* section : {"layers.0.key_value_sum", "layers.1.key_value_carry",
                              "layers.1.key_sum", "layers.0.key_carry"}) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      Content content = Synthesized(9);
      Set(content, section, 4, bad);
      const std::string problem = Problem(9, content);
      EXPECT_THAT(problem, testing::HasSubstr(std::string(section) + "[4] is "));
      EXPECT_THAT(problem, testing::HasSubstr("must be finite"));
    }
    Content content = Synthesized(0);
    Set(content, section, 2, 0.5F);
    EXPECT_EQ(Problem(0, content),
              std::string(section) + "[2] is 0.5, must be 0: nothing was added yet");
  }
  Content content = Synthesized(9);
  for (size_t i = 3; i < 6; ++i) Set(content, "layers.0.key_sum", i, 0.0F);
  EXPECT_EQ(Problem(9, content),
            "layers.0.key_sum[3] and the 2 after it are 0, must not be after a position");
  // A pair's sum takes what it can hold.
  for (const char* part : {"key_value", "key"}) {
    content = Synthesized(9);
    const std::string carry = std::string("layers.1.") + part + "_carry";
    Set(content, std::string("layers.1.") + part + "_sum", 4, 8.0F);
    Set(content, carry, 4, 0x1p-21F);  // half of the last place of 8: to even, lost
    EXPECT_TRUE(LoadContent(*New(), 9, content).ok());
    Set(content, carry, 4, 0x1p-20F);
    EXPECT_EQ(Problem(9, content), carry +
                                       "[4] is 9.53674e-07, must be lost beside its sum, 8, "
                                       "which would hold it");
  }
  content = Synthesized(9);
  Set(content, "layers.1.key_sum", 5, -0.25F);
  EXPECT_EQ(Problem(9, content),
            "layers.1.key_sum[5] is -0.25, must be 0 or more: features are positive");
}

}  // namespace
}  // namespace tvq
