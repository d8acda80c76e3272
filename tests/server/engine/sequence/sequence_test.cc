#include "server/engine/sequence/sequence.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

Submission Submitted(const Model& model, SamplingParams sampling) {
  return Prepare(Ask(NewSink(), "aaaa", std::move(sampling)), model, SmallOptions(), 1'000'000)
      .value();
}

TEST(SequenceTest, WhoHasGivenItsStateAwayKeepsNothingToDraftFrom) {
  FakeModel model({.draft_rows = 7});
  const Submission submission = Submitted(model, {.max_tokens = 100, .n = 2});
  Sequence first(submission, 0, {.share = {}, .state = model.NewState().value()},
                 HeldDrafter{{}, *PromptDrafter(submission.request)});
  Sequence second(submission, 1, {.share = {}, .state = model.NewState().value()},
                  HeldDrafter{{}, *first.drafter()});
  for (Sequence* s : {&first, &second}) {
    s->Accept({.token = {.id = ByteId('a')}});
    EXPECT_FALSE(s->Draft(7).empty());
  }
  first.TakeHeld();
  EXPECT_EQ(first.drafter(), nullptr);
  EXPECT_TRUE(first.Draft(7).empty());
  EXPECT_NE(second.drafter(), nullptr);
}

TEST(SequenceTest, HasNothingToDraftFromWhereThereCanBeNoDrafts) {
  const FakeModel model;
  const auto drafts = [&](SamplingParams sampling) {
    return PromptDrafter(Submitted(model, std::move(sampling)).request).has_value();
  };
  EXPECT_FALSE(drafts({.max_tokens = 1}));
  EXPECT_FALSE(drafts({.max_tokens = 2}));
  EXPECT_TRUE(drafts({.max_tokens = 3}));
  EXPECT_FALSE(drafts({.presence_penalty = 1, .max_tokens = 3}));
}

Need NeedOf(SamplingParams sampling) {
  const FakeModel model;
  const auto submission =
      Prepare(Ask(NewSink(), "aaaa", std::move(sampling)), model, SmallOptions(), 1'000'000);
  EXPECT_TRUE(submission.ok()) << submission.status();
  return submission.ok() ? submission->need : Need{};
}

TEST(SubmissionTest, WhatARequestKeepsBesideItsPromptCountsAsPromptTokens) {
  EXPECT_EQ(NeedOf({.stop = {"few", "bytes"}}).prompt_tokens, 4);
  const std::vector<std::string> many(64, std::string(1024, 's'));
  EXPECT_GT(NeedOf({.stop = many}).prompt_tokens, 64 * 1024 / 2);
}

TEST(SubmissionTest, ARequestMayKeepAsMuchAsTheQueueHolds) {
  const FakeModel model;
  EngineOptions options = SmallOptions();
  options.max_num_queued_tokens = 1000;
  const std::vector<std::string> many(64, std::string(1024, 's'));
  const auto submission =
      Prepare(Ask(NewSink(), "aaaa", {.stop = many}), model, options, 1'000'000);
  EXPECT_EQ(submission.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(submission.status().message(),
            "stop: with stop_token_ids, allowed_token_ids and logit_bias it counts as 48128 prompt "
            "tokens for the memory that they take, and the prompt has 4; together they must be at "
            "most 1000, as many as may wait");
}

}  // namespace
}  // namespace tvq
