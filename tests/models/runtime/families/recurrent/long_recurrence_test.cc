// Texts so long that errors of the recurrences would add up, read in chunks and token by token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/resident_bytes.h"
#include "kernels/device/device.h"
#include "tests/models/runtime/families/recurrent/recurrent_models.h"
#include "tests/models/runtime/stack/fed_model.h"

namespace tvq {
namespace {

using testing::Each;
using testing::ResultOf;

struct LongText {
  const char* json;
  int64_t tokens;
  // Of a logit. Recurrent layers add in the same order in both ways, and their bits are equal.
  // Attention adds the values of N tokens in blocks of a prompt, and otherwise in steps: sums in
  // two orders, which differ by at most 2 N roundings of 2^-24 of their magnitudes. What that does
  // to logits is not derived: the bound is N 2^-24 of the largest, which is near 2.
  double difference;
};

class LongRecurrenceTest : public testing::TestWithParam<LongText> {};

TEST_P(LongRecurrenceTest, ChunksAndStepsAgree) {
  const auto [json, tokens, difference] = GetParam();
  FedModel model(BuildRandom(json, MakeDevice("cpu", 2).value()).value());
  const auto chunks = model.NewState(), steps = model.NewState();
  for (int64_t to = tokens / 10; to <= tokens; to += tokens / 10) {
    const std::vector<float> expected = model.StepTo(*steps, to);
    const std::vector<float> logits = model.PrefillTo(*chunks, to);
    for (size_t i = 0; i < logits.size(); ++i) {
      ASSERT_NEAR(logits[i], expected[i], difference) << "logit " << i << " at " << to;
    }
    ASSERT_THAT(logits, Each(ResultOf([](float x) { return std::isfinite(x); }, true)));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, LongRecurrenceTest,
                         testing::Values(LongText{kRwkv7, 100'000, 0},
                                         LongText{kMamba2, 100'000, 0},
                                         LongText{kQwen35, 20'000, 20'000 * 0x1p-24 * 2}));

TEST(LongRecurrenceTest, AMillionTokensTakeNoMoreMemoryThanAHundredThousand) {
  for (const char* json : {kRwkv7, kMamba2}) {
    FedModel model(BuildRandom(json, MakeDevice("cpu", 2).value()).value());
    const auto state = model.NewState();
    model.PrefillTo(*state, 100'000);
    const int64_t resident = ResidentBytes();
    EXPECT_EQ(model.model().StateBytes(1'000'000), model.model().StateBytes(1));
    const std::vector<float> logits = model.PrefillTo(*state, 1'000'000);
    // Less than a byte for each token; the system's count may lag by 64 pages.
    EXPECT_LT(ResidentBytes() - resident, 1'000'000) << json;
    EXPECT_THAT(logits, Each(ResultOf([](float x) { return std::isfinite(x); }, true))) << json;
  }
}

}  // namespace
}  // namespace tvq
