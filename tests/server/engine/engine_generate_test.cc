// What one request gets, whatever else runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "models/runtime/tokenizer/stream_decoder.h"
#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

using ::testing::Not;

std::string TextOf(const std::vector<int32_t>& ids) { return *FakeTokenizer().Decode(ids); }

TEST(EngineGenerateTest, OneRequestGeneratesToItsLimit) {
  Harness h;
  const auto sink = Generate(*h.engine, "hello, engine", {.seed = 7, .max_tokens = 20});
  const auto sample = sink->sample();
  EXPECT_EQ(sample.tokens.size(), 20u);
  EXPECT_EQ(sample.text, TextOf(sample.tokens));
  EXPECT_EQ(sample.finish, FinishReason::kLength);
  EXPECT_EQ(sink->usage().prompt_tokens, 13);
  EXPECT_EQ(sink->usage().completion_tokens, 20);
  EXPECT_EQ(h.model->prefilled_tokens, 13);
  EXPECT_EQ(h.model->decoded_rows, 19);  // the last token is not fed
  EXPECT_EQ(h.model->live_states, 0);
}

// The engine against the obvious loop over the model.
TEST(EngineGenerateTest, GreedyTokensAreThoseOfTheModelAlone) {
  Harness h;
  const auto sink = Generate(*h.engine, "greedy", {.temperature = 0, .max_tokens = 30});
  std::vector<int32_t> context = Ids("greedy");
  for (int32_t token : sink->sample().tokens) {
    int32_t best = 0;
    for (int32_t id = 1; id < kVocab; ++id) {
      if (h.model->Logprob(context, id) > h.model->Logprob(context, best)) best = id;
    }
    EXPECT_EQ(token, best);
    context.push_back(token);
  }
}

TEST(EngineGenerateTest, SeedFixesTokens) {
  Harness h;
  const auto a = Generate(*h.engine, "seed", {.seed = 1, .max_tokens = 40});
  const auto b = Generate(*h.engine, "seed", {.seed = 1, .max_tokens = 40});
  const auto c = Generate(*h.engine, "seed", {.seed = 2, .max_tokens = 40});
  EXPECT_EQ(a->sample(), b->sample());
  EXPECT_FALSE(a->sample() == c->sample());
  const auto d = Generate(*h.engine, "seed", {.max_tokens = 40});
  const auto e = Generate(*h.engine, "seed", {.max_tokens = 40});
  EXPECT_FALSE(d->sample() == e->sample()) << "an unset seed must be drawn";
}

TEST(EngineGenerateTest, PromptOfAnyLengthIsFedOnce) {
  for (int length : {1, 7, 8, 9, 16, 100}) {
    Harness h;
    Generate(*h.engine, std::string(static_cast<size_t>(length), 'x'), {.max_tokens = 1});
    EXPECT_EQ(h.model->prefilled_tokens, length);
    EXPECT_EQ(h.engine->stats().prefill_tokens_computed, length);
  }
}

TEST(EngineGenerateTest, SamplesShareThePrompt) {
  Harness h;
  const std::string prompt(50, 'p');
  const auto sink = Generate(*h.engine, prompt, {.seed = 3, .max_tokens = 12, .n = 8});
  EXPECT_EQ(h.model->prefilled_tokens, 50);
  const auto samples = sink->samples();
  ASSERT_EQ(samples.size(), 8u);
  EXPECT_EQ(sink->usage().prompt_tokens, 50);
  EXPECT_EQ(sink->usage().completion_tokens, 8 * 12);
  for (const auto& [i, sample] : samples) {
    EXPECT_EQ(sample.tokens.size(), 12u);
    EXPECT_EQ(sample.finish, FinishReason::kLength);
    EXPECT_EQ(i == 0, sample.text == samples.at(0).text);
  }
  // Sample 0 does not depend on how many there are.
  EXPECT_EQ(Generate(*h.engine, prompt, {.seed = 3, .max_tokens = 12})->sample(), samples.at(0));
  EXPECT_EQ(h.model->live_states, 0);
}

TEST(EngineGenerateTest, EndOfSequenceEndsAndIsNotShown) {
  Harness h({.eos_bias = 13});
  const auto sink = Generate(*h.engine, "end", {.seed = 5, .max_tokens = 1000});
  const auto sample = sink->sample();
  EXPECT_EQ(sample.finish, FinishReason::kStop);
  EXPECT_EQ(sample.finish, FinishReason::kStop);
  EXPECT_FALSE(sample.stop_token) << "an end of sequence is no id of the request";
  EXPECT_LT(sample.tokens.size(), 1000u);
  EXPECT_THAT(sample.tokens, Not(::testing::Contains(kEos)));
  EXPECT_EQ(sink->usage().completion_tokens, static_cast<int64_t>(sample.tokens.size()));

  const auto ignoring =
      Generate(*h.engine, "end", {.seed = 5, .ignore_eos = true, .max_tokens = 1000});
  EXPECT_EQ(ignoring->sample().finish, FinishReason::kLength);
  EXPECT_EQ(ignoring->sample().tokens.size(), 1000u);
  EXPECT_THAT(ignoring->sample().tokens, ::testing::Contains(kEos));
}

TEST(EngineGenerateTest, MinTokensBansTheEnds) {
  Harness h({.eos_bias = 40});
  EXPECT_TRUE(Generate(*h.engine, "min", {.max_tokens = 30})->sample().tokens.empty());
  const auto sample = Generate(*h.engine, "min", {.max_tokens = 30, .min_tokens = 11})->sample();
  EXPECT_EQ(sample.tokens.size(), 11u);
  EXPECT_EQ(sample.finish, FinishReason::kStop);
}

TEST(EngineGenerateTest, StopTokenEndsAndItsTextIsShownOnlyWhenAsked) {
  Harness h;
  const auto whole = Generate(*h.engine, "stop", {.seed = 9, .max_tokens = 60})->sample();
  const int32_t stop = whole.tokens[10];
  const size_t at = static_cast<size_t>(std::find(whole.tokens.begin(), whole.tokens.end(), stop) -
                                        whole.tokens.begin());
  SamplingParams params{.seed = 9, .stop_token_ids = {stop}, .max_tokens = 60};
  const auto without = Generate(*h.engine, "stop", params)->sample();
  EXPECT_EQ(without.text, whole.text.substr(0, at));
  EXPECT_EQ(without.stop_token, stop);
  params.include_stop_str_in_output = true;
  const auto with = Generate(*h.engine, "stop", params)->sample();
  EXPECT_EQ(with.text, whole.text.substr(0, at + 1));
  EXPECT_EQ(with.tokens, without.tokens);
}

TEST(EngineGenerateTest, StopStringEndsItsTokensStayItsTextDoesNot) {
  Harness h;
  const auto whole = Generate(*h.engine, "stop", {.seed = 9, .max_tokens = 60})->sample();
  const std::string stop = whole.text.substr(20, 4);
  const size_t at = whole.text.find(stop);
  SamplingParams params{.seed = 9, .stop = {"never", stop}, .max_tokens = 60};
  const auto without = Generate(*h.engine, "stop", params)->sample();
  EXPECT_EQ(without.text, whole.text.substr(0, at));
  EXPECT_EQ(TextOf(without.tokens), whole.text.substr(0, at + 4));
  EXPECT_EQ(without.finish, FinishReason::kStop);
  EXPECT_EQ(without.stop_string, stop);
  params.include_stop_str_in_output = true;
  EXPECT_EQ(Generate(*h.engine, "stop", params)->sample().text, whole.text.substr(0, at + 4));
}

TEST(EngineGenerateTest, HeldBackTextComesWhenTheLimitEndsTheSample) {
  Harness h;
  const auto whole = Generate(*h.engine, "held", {.seed = 9, .max_tokens = 10})->sample();
  const auto same = Generate(*h.engine, "held",
                             {.seed = 9, .stop = {whole.text.substr(7) + "!"}, .max_tokens = 10});
  EXPECT_EQ(same->sample().text, whole.text);
  EXPECT_EQ(same->sample().finish, FinishReason::kLength);
}

TEST(EngineGenerateTest, DeltasNeverSplitCharacters) {
  Harness h({.letters_only = false});
  std::string text;
  auto sink = std::make_shared<RecordingSink>();
  sink->on_delta = [&](const Delta& d) {
    // A continuation byte cannot begin a piece; what precedes is complete.
    EXPECT_TRUE(d.text.empty() || (static_cast<unsigned char>(d.text[0]) & 0xC0) != 0x80);
    text += d.text;
  };
  ASSERT_TRUE(h.engine->Submit(Ask(sink, "\xC3", {.seed = 4, .max_tokens = 400})).ok());
  ASSERT_TRUE(sink->Wait().ok());
  StreamDecoder decoder(h.model->tokenizer());
  decoder.Push(ByteId('\xC3'));
  std::string expected;
  for (int32_t id : sink->sample().tokens) expected += decoder.Push(id);
  expected += decoder.Finish();
  EXPECT_EQ(text, expected);
}

TEST(EngineGenerateTest, LogprobsComeWhenAskedFor) {
  Harness h;
  const auto without = Generate(*h.engine, "lp", {.seed = 1, .max_tokens = 5});
  for (const TokenEvent& e : without->sample().events) {
    EXPECT_EQ(e.token.logprob, 0);
    EXPECT_EQ(e.token.rank, 0);
    EXPECT_TRUE(e.top.empty());
  }
  const auto with = Generate(*h.engine, "lp", {.seed = 1, .max_tokens = 5, .logprobs = 3});
  EXPECT_EQ(with->sample(), without->sample());
  std::vector<int32_t> context = Ids("lp");
  for (const TokenEvent& e : with->sample().events) {
    EXPECT_FLOAT_EQ(e.token.logprob, h.model->Logprob(context, e.token.id));
    ASSERT_EQ(e.top.size(), 3u);
    EXPECT_GE(e.top[0].logprob, e.top[1].logprob);
    EXPECT_EQ(e.top[1].rank, 2);
    context.push_back(e.token.id);
  }
}

TEST(EngineGenerateTest, PromptLogprobsComeInOrderWithTheFirstEmpty) {
  Harness h;
  const std::string prompt = "twenty-one characters";
  const auto sink = Generate(*h.engine, prompt, {.max_tokens = 2, .prompt_logprobs = 2});
  const auto events = sink->prompt();
  ASSERT_EQ(events.size(), prompt.size());
  EXPECT_EQ(events[0].token.id, 0);
  const std::vector<int32_t> ids = Ids(prompt);
  for (size_t i = 1; i < ids.size(); ++i) {
    EXPECT_EQ(events[i].token.id, ids[i]);
    EXPECT_FLOAT_EQ(events[i].token.logprob,
                    h.model->Logprob(std::span(ids).subspan(0, i), ids[i]));
    EXPECT_EQ(events[i].top.size(), 2u);
  }
  EXPECT_EQ(sink->sample().tokens.size(), 2u);
}

TEST(EngineGenerateTest, ScoreOnlyGivesThePromptInPiecesAndNothingElse) {
  Harness h;
  for (size_t length : {1u, 2u, 8u, 9u, 200u}) {
    auto sink = std::make_shared<RecordingSink>();
    Request request = Ask(sink, std::string(length, 's'), {.max_tokens = 0});
    request.purpose = Purpose::kScore;
    ASSERT_TRUE(h.engine->Submit(request).ok());
    ASSERT_TRUE(sink->Wait().ok());
    const auto events = sink->prompt();
    ASSERT_EQ(events.size(), length);
    for (size_t i = 1; i < length; ++i) {
      EXPECT_FLOAT_EQ(events[i].token.logprob,
                      h.model->Logprob(std::span(request.prompt).subspan(0, i), ByteId('s')));
    }
    EXPECT_EQ(sink->deltas(), 0);
    EXPECT_EQ(sink->usage().completion_tokens, 0);
    // A piece for each chunk of 8 fed; the last token is not.
    EXPECT_EQ(sink->prompt_pieces(), std::max<int64_t>(1, (static_cast<int64_t>(length) + 6) / 8));
  }
}

TEST(EngineGenerateTest, EchoPutsThePromptFirst) {
  Harness h;
  const auto plain = Generate(*h.engine, "say: ", {.seed = 2, .max_tokens = 6, .n = 2});
  const auto echo = Generate(
      *h.engine, "say: ", {.seed = 2, .stop = {"say"}, .max_tokens = 6, .n = 2, .echo = true});
  for (int i : {0, 1}) {
    EXPECT_EQ(echo->samples()[i].text, "say: " + plain->samples()[i].text);
    EXPECT_EQ(echo->samples()[i].tokens, plain->samples()[i].tokens);
  }
}

TEST(EngineGenerateTest, NoTokensLeaveThePromptAlone) {
  Harness h;
  const auto sink = Generate(*h.engine, "say: \xC3",
                             {.max_tokens = 0, .prompt_logprobs = 1, .n = 2, .echo = true});
  for (int i : {0, 1}) {
    EXPECT_EQ(sink->samples()[i].text, "say: \uFFFD");
    EXPECT_TRUE(sink->samples()[i].tokens.empty());
    EXPECT_EQ(sink->samples()[i].finish, FinishReason::kLength);
  }
  const std::vector<int32_t> ids = Ids("say: \xC3");
  ASSERT_EQ(sink->prompt().size(), ids.size());
  EXPECT_FLOAT_EQ(sink->prompt()[5].token.logprob,
                  h.model->Logprob(std::span(ids).subspan(0, 5), ids[5]));
  EXPECT_EQ(sink->usage().prompt_tokens, 6);
  EXPECT_EQ(sink->usage().completion_tokens, 0);
  const EngineStats stats = h.engine->stats();
  EXPECT_EQ(stats.generation_tokens, 0);
  EXPECT_EQ(stats.requests_finished, 1);
}

TEST(EngineGenerateTest, NoTokensHaveNoTextWithoutEcho) {
  Harness h;
  // min_tokens may be a model's default.
  const auto sink = Generate(*h.engine, "say: \xC3", {.max_tokens = 0, .min_tokens = 5});
  EXPECT_EQ(sink->sample().text, "");
  EXPECT_EQ(sink->sample().finish, FinishReason::kLength);
}

TEST(EngineGenerateTest, PenaltiesBiasAndAllowedIdsReachTheSampler) {
  Harness h;
  const auto only = Generate(*h.engine, "x", {.max_tokens = 9, .allowed_token_ids = {ByteId('q')}});
  EXPECT_EQ(only->sample().text, "qqqqqqqqq");
  const auto biased =
      Generate(*h.engine, "x", {.max_tokens = 9, .logit_bias = {{ByteId('z'), 100}}});
  EXPECT_EQ(biased->sample().text, "zzzzzzzzz");
  // A token once said is pushed down; with four to choose from, each comes in turn.
  const auto spread = Generate(*h.engine, "x",
                               {.temperature = 0,
                                .presence_penalty = 2,
                                .frequency_penalty = 2,
                                .max_tokens = 4,
                                .allowed_token_ids = Ids("abcd"),
                                .logit_bias = {{ByteId('a'), 1}}});
  const auto flat = Generate(*h.engine, "x",
                             {.temperature = 0, .max_tokens = 4, .allowed_token_ids = Ids("abcd")});
  EXPECT_NE(spread->sample().text, flat->sample().text);
  EXPECT_EQ(flat->sample().text.size(), 4u);
}

TEST(EngineGenerateTest, StatsAddUp) {
  Harness h;
  Generate(*h.engine, "0123456789", {.max_tokens = 5, .n = 3});
  const EngineStats stats = h.engine->stats();
  EXPECT_EQ(stats.requests_finished, 1);
  EXPECT_EQ(stats.requests_running, 0);
  EXPECT_EQ(stats.sequences_running, 0);
  EXPECT_EQ(stats.state_bytes, 0);
  EXPECT_EQ(stats.state_bytes_reserved, 0);
  EXPECT_EQ(stats.state_bytes_budget, 1'000'000);
  EXPECT_EQ(stats.prompt_tokens, 10);
  EXPECT_EQ(stats.prefill_tokens_computed, 10);
  EXPECT_EQ(stats.generation_tokens, 15);
  EXPECT_EQ(stats.steps, 5);  // the prompt with its first tokens, then four
}

}  // namespace
}  // namespace tvq
