// What holds of the sessions of any stack, whatever its layers keep. A family of layers that is
// added is added to the list.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/device/device.h"
#include "tests/models/runtime/stack/fed_model.h"
#include "tests/models/runtime/stack/stacks.h"
#include "tests/models/runtime/stack/state_content.h"

namespace tvq {
namespace {

class SessionsTest : public testing::TestWithParam<AnyStack> {
 protected:
  Model& model() { return fed_.model(); }
  std::unique_ptr<State> NewState() { return fed_.NewState(); }
  std::vector<float> PrefillTo(State& state, int64_t to) { return fed_.PrefillTo(state, to); }
  std::vector<float> StepTo(State& state, int64_t to) { return fed_.StepTo(state, to); }

  FedModel fed_{GetParam().make(MakeDevice("cpu", 2).value())};
};

TEST_P(SessionsTest, PromptsAgreeWithSteps) {
  const auto prompted = NewState(), stepped = NewState();
  const std::vector<float> a = PrefillTo(*prompted, 300), b = StepTo(*stepped, 300);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4) << i;
  EXPECT_EQ(prompted->bytes(), model().StateBytes(300));
}

TEST_P(SessionsTest, WhatIsSavedForkedAndRewoundGoesOnWithTheSameBits) {
  const auto original = NewState();
  PrefillTo(*original, 250);
  const Content saved = ContentOf(*original);
  EXPECT_EQ(original->Sections(), model().StateSections(250));
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

TEST_P(SessionsTest, BatchGivesEachRowTheBitsItHasAlone) {
  std::vector<std::unique_ptr<State>> alone, batched;
  for (const int64_t position : {1, 9, 254, 255, 256, 300}) {
    alone.push_back(NewState());
    batched.push_back(NewState());
    PrefillTo(*alone.back(), position);
    ASSERT_TRUE(batched.back()->CopyFrom(*alone.back()).ok());
  }
  for (int step = 0; step < 3; ++step) {
    std::vector<State*> rows;
    rows.reserve(batched.size());
    for (const auto& state : batched) rows.push_back(state.get());
    const std::vector<std::vector<float>> together = fed_.Step(rows);
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(StepTo(*alone[i], alone[i]->position() + 1), together[i]) << i;
    }
  }
}

TEST_P(SessionsTest, ANewStateIsThatOfNoTokens) {
  const auto used = NewState(), fresh = NewState();
  const Content empty = ContentOf(*used);
  PrefillTo(*used, 70);
  ASSERT_TRUE(LoadContent(*used, 0, empty).ok());
  EXPECT_EQ(PrefillTo(*used, 30), PrefillTo(*fresh, 30));
}

// Of models whose layers can take drafts back: what is fed again behind a draft has the bits of
// what never saw one.
TEST_P(SessionsTest, DraftsThatAreTakenBackLeaveNoTrace) {
  Drafts* const drafts = model().drafts();
  if (drafts == nullptr) GTEST_SKIP() << "a layer of this stack takes nothing back";
  const auto drafted = NewState(), plain = NewState();
  PrefillTo(*drafted, 61);
  PrefillTo(*plain, 61);
  Logits logits = model().NewLogits(4).value();
  for (const int64_t accepted : {0, 1, 3, 2}) {
    std::vector<DecodeRow> rows;
    for (int32_t i = 0; i < 4; ++i) {
      // Only the accepted ones are the text's.
      const int32_t token = fed_.TokenAt(drafted->position() + i);
      const bool right = i <= accepted;
      rows.push_back({drafted.get(), right ? token : (token + 7) % 29, i});
    }
    ASSERT_TRUE(model().Decode(rows, &logits).ok());
    const int64_t kept = plain->position() + accepted + 1;
    ASSERT_TRUE(drafts->Rewind(*drafted, kept).ok());
    StepTo(*plain, kept);
    EXPECT_EQ(ContentOf(*drafted), ContentOf(*plain)) << accepted;
  }
  EXPECT_EQ(StepTo(*drafted, 90), StepTo(*plain, 90));
}

INSTANTIATE_TEST_SUITE_P(All, SessionsTest, testing::ValuesIn(kStacks),
                         [](const auto& stacked) { return std::string(stacked.param.name); });

}  // namespace
}  // namespace tvq
