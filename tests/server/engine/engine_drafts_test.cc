// Drafts change how many steps a text takes, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/engine/sequence/prompt_lookup.h"
#include "tests/server/engine/session_calls.h"

namespace tvq {
namespace {

Harness WithDrafts(int64_t draft_rows, FakeOptions fake = {},
                   EngineOptions options = SmallOptions()) {
  fake.draft_rows = draft_rows;
  return Harness(fake, options);
}

// What comes of a request, and what it leaves.
struct DraftsOutcome {
  std::map<int32_t, RecordingSink::Sample> samples;
  std::vector<float> logprobs;  // of tokens and alternatives
  int64_t completion_tokens = 0;
  std::vector<std::byte> left;
  bool operator==(const DraftsOutcome&) const = default;
};

DraftsOutcome DraftsOutcomeOf(RecordingSink& sink) {
  EXPECT_TRUE(sink.Wait().ok()) << sink.Wait();
  DraftsOutcome outcome{.samples = sink.samples(),
                        .completion_tokens = sink.usage().completion_tokens};
  for (const auto& [index, sample] : outcome.samples) {
    for (const TokenEvent& event : sample.events) {
      outcome.logprobs.push_back(event.token.logprob);
      for (const TokenLogprob& other : event.top) outcome.logprobs.push_back(other.logprob);
    }
  }
  if (auto kept = sink.TakeKept()) {
    TestSession session;
    session.Commit(*std::move(kept));
    outcome.left = session.Bits();
  }
  return outcome;
}

// Texts of few letters, in which some drafts are right and some wrong.
std::vector<Request> Requests() {
  const std::vector<int32_t> two = Ids("ab"), three = Ids("abc"), one = Ids("a");
  std::vector<SamplingParams> all{
      {.temperature = 0, .max_tokens = 60, .allowed_token_ids = two},
      {.temperature = 1, .seed = 3, .max_tokens = 90, .allowed_token_ids = two, .logprobs = 2},
      {.temperature = 0.7F, .seed = 4, .max_tokens = 50, .allowed_token_ids = one, .logprobs = 0},
      {.seed = 5, .stop = {"aabb", "baba"}, .max_tokens = 80, .allowed_token_ids = two},
      {.seed = 6, .stop = {"cc"}, .max_tokens = 80, .min_tokens = 30, .allowed_token_ids = three},
      {.seed = 7, .stop_token_ids = {ByteId('c')}, .max_tokens = 80, .allowed_token_ids = three},
      {.seed = 8,
       .stop_token_ids = {ByteId('c')},
       .max_tokens = 80,
       .min_tokens = 40,
       .allowed_token_ids = three},
      {.frequency_penalty = 0.1F, .seed = 9, .max_tokens = 40, .allowed_token_ids = two},
      {.temperature = 0, .max_tokens = 70, .allowed_token_ids = three, .logprobs = 1},
      {.top_p = 0.9F, .seed = 10, .max_tokens = 1, .allowed_token_ids = one},
      {.seed = 11, .max_tokens = 200},
      {.seed = 12, .max_tokens = 64, .allowed_token_ids = two, .logprobs = 0, .n = 3}};
  std::vector<Request> requests;
  for (SamplingParams& sampling : all) {
    const bool keep = sampling.n == 1;
    requests.push_back(Ask(nullptr, "abaabbaabababbaacb", std::move(sampling)));
    requests.back().keep = keep;
  }
  return requests;
}

std::vector<DraftsOutcome> OneByOne(Engine& engine) {
  std::vector<DraftsOutcome> outcomes;
  for (Request request : Requests()) {
    const auto sink = NewSink();
    request.sink = sink;
    EXPECT_TRUE(engine.Submit(std::move(request)).ok());
    outcomes.push_back(DraftsOutcomeOf(*sink));
  }
  return outcomes;
}

std::vector<DraftsOutcome> Together(Engine& engine) {
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (Request request : Requests()) {
    sinks.push_back(NewSink());
    request.sink = sinks.back();
    EXPECT_TRUE(engine.Submit(std::move(request)).ok());
  }
  std::vector<DraftsOutcome> outcomes;
  outcomes.reserve(sinks.size());
  for (const auto& sink : sinks) outcomes.push_back(DraftsOutcomeOf(*sink));
  return outcomes;
}

TEST(EngineDraftsTest, TokensLogprobsAndStatesAreThoseWithoutDrafts) {
  for (const float eos_bias : {0.0F, 13.0F}) {
    Harness plain = WithDrafts(0, {.eos_bias = eos_bias});
    const std::vector<DraftsOutcome> expected = OneByOne(*plain.engine);
    EXPECT_EQ(plain.engine->stats().draft_tokens, 0);
    for (const int64_t drafts : {1, 3, 7, 30}) {
      Harness drafting = WithDrafts(drafts, {.eos_bias = eos_bias});
      const std::vector<DraftsOutcome> alone = OneByOne(*drafting.engine);
      const std::vector<DraftsOutcome> together = Together(*drafting.engine);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(alone[i] == expected[i]) << "request " << i << " with " << drafts;
        EXPECT_TRUE(together[i] == expected[i]) << "request " << i << " with " << drafts;
      }
      const EngineStats stats = drafting.engine->stats();
      EXPECT_GT(stats.draft_tokens_accepted, 0);
      EXPECT_LT(stats.draft_tokens_accepted, stats.draft_tokens);
    }
  }
}

TEST(EngineDraftsTest, ATextThatRepeatsItselfTakesFewerSteps) {
  Harness h = WithDrafts(7);
  Generate(*h.engine, "aaaa", {.max_tokens = 81, .allowed_token_ids = Ids("a")});
  const EngineStats stats = h.engine->stats();
  EXPECT_EQ(stats.generation_tokens, 81);
  // After the prompt's step of one token, steps of 3, 5 and then 8 tokens; no more than are wanted.
  EXPECT_EQ(stats.steps, 1 + 1 + 1 + 9);
  EXPECT_EQ(stats.draft_tokens, 2 + 4 + 9 * 7);
  EXPECT_EQ(stats.draft_tokens_accepted, stats.draft_tokens);
  EXPECT_EQ(h.model->decoded_rows, 80);
}

TEST(EngineDraftsTest, ATextThatDoesNotIsLeftAlone) {
  Harness h = WithDrafts(7);
  Generate(*h.engine, "no two alike", {.seed = 1, .max_tokens = 3000});
  const EngineStats stats = h.engine->stats();
  EXPECT_EQ(stats.generation_tokens, 3000);
  // Of eight letters one draft in eight is right by chance.
  EXPECT_GT(stats.draft_tokens, 0);
  EXPECT_LT(stats.draft_tokens, stats.generation_tokens / 5);
}

TEST(EngineDraftsTest, PenaltiesHaveNone) {
  Harness h = WithDrafts(7);
  Generate(*h.engine, "aaaa",
           {.presence_penalty = 0.5F, .max_tokens = 40, .allowed_token_ids = Ids("a")});
  EXPECT_EQ(h.engine->stats().draft_tokens, 0);
}

TEST(EngineDraftsTest, SequencesShareTheRowsThatOneWouldHave) {
  Harness h = WithDrafts(7);
  const SamplingParams sampling{.max_tokens = 100, .allowed_token_ids = Ids("a"), .n = 4};
  const auto sink = Generate(*h.engine, "aaaa", sampling);
  EXPECT_EQ(sink->usage().completion_tokens, 400);
  EXPECT_EQ(h.model->decoded_rows, 4 * 99);
  // A draft each, 8 rows a step: of the 99 tokens behind the first two a step, and the last alone.
  const EngineStats stats = h.engine->stats();
  EXPECT_EQ(stats.draft_tokens, 4 * 49);
  EXPECT_EQ(stats.draft_tokens_accepted, 4 * 49);
  EXPECT_EQ(stats.steps, 1 + 49 + 1);

  Harness full = WithDrafts(7);
  SamplingParams eight = sampling;
  eight.n = 8;
  Generate(*full.engine, "aaaa", eight);
  EXPECT_EQ(full.engine->stats().draft_tokens, 0);
  EXPECT_EQ(full.engine->stats().steps, 100);
}

TEST(EngineDraftsTest, ARequestWhoseDraftIsNotTakenBackFails) {
  FakeOptions fake{.draft_rows = 7};
  Harness h(fake, SmallOptions(), [](std::string_view call) {
    return call == "Rewind" ? absl::InternalError("cannot go back") : absl::OkStatus();
  });
  const auto sink = NewSink();
  SamplingParams sampling = Endless();
  sampling.seed = 1;
  sampling.allowed_token_ids = Ids("ab");
  ASSERT_TRUE(h.engine->Submit(Ask(sink, "abab", sampling)).ok());
  EXPECT_EQ(sink->Wait().message(), "cannot go back");
  EXPECT_EQ(h.model->live_states, 0);
}

TEST(EngineDraftsTest, WhatIsNotFiniteBehindAWrongDraftIsNobodys) {
  const std::string_view prompt = "aacabcbacbbcaacabcbacbbc";
  SamplingParams sampling{.max_tokens = 60, .allowed_token_ids = Ids("ab"), .logprobs = 0};
  Harness plain = WithDrafts(0),
          drafting = WithDrafts(7, {.poison = ByteId('c'), .poison_from = std::ssize(prompt)});
  for (sampling.seed = 1; *sampling.seed <= 20; ++*sampling.seed) {
    Request want = Ask(NewSink(), prompt, sampling), got = want;
    EXPECT_TRUE(plain.engine->Submit(want).ok());
    got.sink = NewSink();
    EXPECT_TRUE(drafting.engine->Submit(got).ok());
    EXPECT_EQ(DraftsOutcomeOf(static_cast<RecordingSink&>(*got.sink)),
              DraftsOutcomeOf(static_cast<RecordingSink&>(*want.sink)));
  }
  EXPECT_GT(drafting.model->poisoned_rows, 0);
}

TEST(EngineDraftsTest, WhatIsNotFiniteInsideARightDraftFailsAfterTheSameTokens) {
  // The 46th token that is fed. The steps before it feed 3, 5, 9, 17 and so on, as drafts allow.
  const FakeOptions fake{.poison = ByteId('a'), .poison_from = 4 + 45};
  const std::map<int64_t, int64_t> poisoned_rows{{0, 1}, {1, 1}, {3, 2}, {7, 3}, {30, 20}};
  for (const auto& [drafts, poisoned] : poisoned_rows) {
    Harness h = WithDrafts(drafts, fake);
    const auto sink = NewSink();
    const SamplingParams sampling{.max_tokens = 81, .allowed_token_ids = Ids("a"), .logprobs = 0};
    ASSERT_TRUE(h.engine->Submit(Ask(sink, "aaaa", sampling)).ok());
    EXPECT_EQ(sink->Wait().message(), "logits are not finite");
    EXPECT_EQ(sink->sample().tokens.size(), 46u) << drafts;
    EXPECT_EQ(sink->usage().completion_tokens, 46) << drafts;
    EXPECT_EQ(h.model->poisoned_rows, poisoned) << drafts;
    EXPECT_EQ(h.model->live_states, 0);
  }
}

TEST(EngineDraftsTest, SamplesThatStartFromLogitsAreThoseWithoutDrafts) {
  std::vector<std::map<int32_t, RecordingSink::Sample>> samples;
  for (const int64_t drafts : {0, 7}) {
    Harness h = WithDrafts(drafts);
    TestSession session;
    Call(*h.engine, session, Purpose::kAppend, "abaabbaabababbaab");
    const auto sink = NewSink();
    Request request = On(session, sink, Purpose::kGenerate, "",
                         {.seed = 4, .max_tokens = 50, .allowed_token_ids = Ids("ab"), .n = 3});
    request.keep = false;
    ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
    samples.push_back(DraftsOutcomeOf(*sink).samples);
    EXPECT_EQ(h.engine->stats().draft_tokens_accepted > 0, drafts > 0);
  }
  EXPECT_EQ(samples[1], samples[0]);
}

TEST(EngineDraftsTest, WhatDraftsTakeIsCountedAsWorkingMemory) {
  const auto bytes = [](const std::vector<int64_t>& draft_rows) {
    std::vector<ServedModel> models;
    models.reserve(draft_rows.size());
    for (const int64_t rows : draft_rows) {
      models.push_back({"fake", std::make_shared<FakeModel>(FakeOptions{.draft_rows = rows})});
    }
    return WorkspaceBytes(models, /*max_num_seqs=*/4);
  };
  const int64_t row = kVocab * 4, lookups = 4 * PromptLookup::kMostBytes;
  EXPECT_EQ(bytes({7}) - bytes({0}), 7 * row + lookups);
  // Every model has rows of its own, but no more sequences decode.
  EXPECT_EQ(bytes({7, 3}) - bytes({0, 0}), 10 * row + lookups);
  EXPECT_EQ(bytes({0, 3}) - bytes({0, 0}), 3 * row + lookups);
}

TEST(EngineDraftsTest, ASessionGoesOnAsWithoutDrafts) {
  Harness plain = WithDrafts(0), drafting = WithDrafts(7);
  TestSession want, got;
  SamplingParams sampling{.seed = 2, .max_tokens = 33, .allowed_token_ids = Ids("ab")};
  for (const std::string_view prompt : {"abab", "", "ba", "abbaabba", ""}) {
    Call(*plain.engine, want, Purpose::kGenerate, prompt, sampling);
    Call(*drafting.engine, got, Purpose::kGenerate, prompt, sampling);
    EXPECT_EQ(got.Bits(), want.Bits());
    sampling.seed = *sampling.seed + 1;
  }
  EXPECT_GT(drafting.engine->stats().draft_tokens_accepted, 0);
}

TEST(EngineDraftsTest, WhatACancelledRequestLeavesGoesOnAsWithoutDrafts) {
  Harness h = WithDrafts(7);
  const auto sink = NewSink();
  SamplingParams endless = Endless();
  endless.seed = 3;
  endless.allowed_token_ids = Ids("ab");
  Request request = Ask(sink, "abab", endless);
  request.keep = request.keep_on_cancel = true;
  const auto handle = h.engine->Submit(std::move(request));
  ASSERT_TRUE(handle.ok());
  sink->WaitDeltas(200);
  h.engine->Cancel(*handle);
  EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
  auto kept = sink->TakeKept();
  ASSERT_TRUE(kept);
  TestSession got;
  got.Commit(*std::move(kept));
  const auto generated = got.tokens.size() - 4;
  EXPECT_EQ(generated, sink->sample().tokens.size());

  Harness plain = WithDrafts(0);
  TestSession want;
  endless.max_tokens = static_cast<int32_t>(generated);
  Call(*plain.engine, want, Purpose::kGenerate, "abab", endless);
  EXPECT_EQ(got.Bits(), want.Bits());
}

}  // namespace
}  // namespace tvq
