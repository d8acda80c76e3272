#include "server/rpc/wire/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/rpc/wire/to_proto.h"
#include "tests/server/message.h"
#include "tests/server/rpc/wire/idle_model.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(FindModelTest, EmptyNameMeansTheFirstModel) {
  const std::vector<ServedModel> one = {MakeModel("a", 1)};
  const std::vector<ServedModel> two = {MakeModel("a", 1), MakeModel("b", 1)};
  EXPECT_EQ((*FindModel(one, ""))->name, "a");
  EXPECT_EQ((*FindModel(two, "b"))->name, "b");
  EXPECT_EQ((*FindModel(two, ""))->name, "a");
  EXPECT_EQ(FindModel({}, "").status().code(), absl::StatusCode::kNotFound);
  const auto unknown = FindModel(two, "c");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(unknown.status()), HasSubstr("\"c\"; this server has: a, b"));
  const auto strange = FindModel(two, "\n" + std::string(10'000, 'x'));
  EXPECT_THAT(Message(strange.status()), HasSubstr("there is no \"\\nxxx"));
  EXPECT_LT(Message(strange.status()).size(), 200);
}

TEST(ToRequestTest, TextIsTokenized) {
  v1::GenerateRequest message;
  message.set_text("AB");
  const auto request = ToRequest(message, MakeModel("m", 1), {});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->model, "m");
  EXPECT_THAT(request->prompt, ElementsAre(65, 66));
  EXPECT_EQ(request->purpose, Purpose::kGenerate);
}

TEST(ToRequestTest, EmptyPromptStartsFromTheEndId) {
  v1::GenerateRequest message;
  EXPECT_THAT(ToRequest(message, MakeModel("m", 7), {})->prompt, ElementsAre(7));
  message.mutable_token_ids();
  EXPECT_THAT(ToRequest(message, MakeModel("m", 7), {})->prompt, ElementsAre(7));
  const auto refused = ToRequest(message, MakeModel("m", std::nullopt), {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(refused.status()), HasSubstr("token_ids: is empty"));
}

TEST(ToRequestTest, IdsOutsideTheVocabularyAreNamed) {
  for (const int32_t id : {-1, 256}) {
    v1::GenerateRequest message;
    message.mutable_token_ids()->add_ids(3);
    message.mutable_token_ids()->add_ids(id);
    const auto refused = ToRequest(message, MakeModel("m", 1), {});
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(refused.status()),
                HasSubstr("token_ids[1]: token id is " + std::to_string(id)));
    EXPECT_THAT(Message(refused.status()), HasSubstr("[0, 256)"));
  }
}

TEST(ToRequestTest, PromptLimit) {
  v1::GenerateRequest message;
  message.set_text("abcd");
  EXPECT_TRUE(ToRequest(message, MakeModel("m", 1), {.max_prompt_tokens = 4}).ok());
  const auto refused = ToRequest(message, MakeModel("m", 1), {.max_prompt_tokens = 3});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(refused.status()), HasSubstr("text: has 4 tokens, must have at most 3"));
}

TEST(ToRequestTest, TextTooLongForTheLimitIsNotTokenized) {
  v1::GenerateRequest message;
  message.set_text(std::string(7 * 4, 'x'));
  const auto tokenized = ToRequest(message, MakeModel("m", 1), {.max_prompt_tokens = 6});
  EXPECT_THAT(Message(tokenized.status()), HasSubstr("28 bytes, more than 6 tokens"));
  const auto tokens = ToRequest(message, MakeModel("m", 1), {.max_prompt_tokens = 7});
  EXPECT_THAT(Message(tokens.status()), HasSubstr("text: has 28 tokens, must have at most 7"));
}

TEST(ToRequestTest, TokenizersErrorNamesTheField) {
  v1::GenerateRequest message;
  message.set_text("refused");
  EXPECT_EQ(Message(ToRequest(message, MakeModel("m", 1), {}).status()),
            "text: character 0 has no id; the model is \"m\"");
}

TEST(ToRequestTest, UnknownCharactersAreNamedUnlessTheyAreAllowed) {
  constexpr char kRefused[] =
      "text: the character \"#\" (U+0023) at byte offset 2 is not in the model's vocabulary; "
      "the text must be without it, or be given as token ids; with allow_unknown, where texts are "
      "tokenized or scored, it is read as the unknown token; the model is \"m\"";
  const ServedModel model = MakeModel("m", 1);
  v1::GenerateRequest generate;
  generate.set_text("ab#c");
  EXPECT_EQ(Message(ToRequest(generate, model, {}).status()), kRefused);
  v1::EncodeRequest encode;
  encode.set_text("ab#c");
  EXPECT_EQ(Message(ToRequest(encode, model, {}).status()), kRefused);
  v1::AppendSessionRequest append;
  append.set_text("ab#c");
  EXPECT_EQ(Message(ToRequest(append, model, {}, {}).status()), kRefused);
  v1::ScoreRequest score;
  score.set_text("ab#c");
  EXPECT_EQ(Message(ToRequest(score, model, {}).status()), kRefused);

  score.set_allow_unknown(true);
  const auto request = ToRequest(score, model, {});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->request.prompt, ElementsAre('a', 'b', kUnknown, 'c'));
  EXPECT_EQ(UnknownTokens(request->request.prompt, model.model->tokenizer()), 1);
  generate.mutable_token_ids()->add_ids(kUnknown);
  EXPECT_TRUE(ToRequest(generate, model, {}).ok());
}

TEST(ToRequestTest, KeptStateTakesAnEmptyPromptUnlessItIsEmptyToo) {
  const v1::GenerateRequest message;
  const ServedModel model = MakeModel("m", 1);
  const auto request = ToRequest(message, model, {}, {ContextStart::kSession, 1});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(request->prompt.empty());
  EXPECT_EQ(Message(ToRequest(message, model, {}, {ContextStart::kSession, 0}).status()),
            "text: is empty, must have at least one token, for the session has none");
  const auto upload = ToRequest(message, model, {}, {ContextStart::kUpload, 0});
  ASSERT_TRUE(upload.ok()) << upload.status();
  EXPECT_EQ(upload->prompt, std::vector<int32_t>{1});
}

TEST(ToRequestTest, AnswerSuffixStandsBehindAnAnswer) {
  const ServedModel model = MakeModel("m", 1);
  v1::GenerateRequest message;
  message.set_text("bc");
  message.set_answer_suffix("\n");
  const auto prompt = [&](const ContextStart& start) {
    const auto request = ToRequest(message, model, {}, start);
    EXPECT_TRUE(request.ok()) << request.status();
    return request.ok() ? request->prompt : std::vector<int32_t>();
  };
  EXPECT_EQ(prompt({}), (std::vector<int32_t>{'b', 'c'}));
  EXPECT_EQ(prompt({ContextStart::kSession, 1}), (std::vector<int32_t>{'b', 'c'}));
  EXPECT_EQ(prompt({ContextStart::kSession, 1, AnswerEnd{"a", 0}}),
            (std::vector<int32_t>{'\n', 'b', 'c'}));
  EXPECT_EQ(prompt({ContextStart::kUpload, 1, AnswerEnd{"a\n", 1}}),
            (std::vector<int32_t>{'b', 'c'}));
  message.clear_answer_suffix();
  EXPECT_EQ(prompt({ContextStart::kSession, 1, AnswerEnd{"ab", 1}}),
            (std::vector<int32_t>{'b', 'c'}));
  message.set_answer_suffix("");
  EXPECT_EQ(prompt({ContextStart::kSession, 1, AnswerEnd{"ab", 1}}), (std::vector<int32_t>{'c'}));

  message.set_text("bcd");
  EXPECT_EQ(prompt({ContextStart::kSession, 1, AnswerEnd{"ab", 1, true}}),
            (std::vector<int32_t>{'b', 'c', 'd'}))
      << "what was appended is no part of the text";

  message.set_answer_suffix(std::string(64, 'x'));
  EXPECT_EQ(prompt({ContextStart::kSession, 1, AnswerEnd{std::string(64, 'x'), 64}}),
            (std::vector<int32_t>{'b', 'c', 'd'}));
  message.set_answer_suffix(std::string(65, 'x'));
  EXPECT_EQ(Message(ToRequest(message, model, {}).status()),
            "answer_suffix: has 65 bytes, must have at most 64");
  message.set_answer_suffix("");
  message.mutable_token_ids()->add_ids(7);
  EXPECT_EQ(Message(ToRequest(message, model, {}).status()),
            "answer_suffix: is set beside token_ids, must stand before text");
}

TEST(ToRequestTest, WhatIsWrongBehindAnAnswerIsToldOfThePartThatTheClientWrote) {
  const ServedModel model = MakeModel("m", 1);
  v1::GenerateRequest message;
  const auto complaint = [&](const AnswerEnd& end, const RequestLimits& limits = {}) {
    return Message(ToRequest(message, model, limits, {ContextStart::kSession, 1, end}).status());
  };
  message.set_text("bc#");
  message.set_answer_suffix("de\n");
  for (const AnswerEnd& end : {AnswerEnd{"a", 0}, AnswerEnd{"ade", 2}, AnswerEnd{"ade\nb", 4}}) {
    EXPECT_THAT(complaint(end), StartsWith("text: the character \"#\" (U+0023) at byte offset 2 "));
  }
  message.set_answer_suffix("d#");
  EXPECT_THAT(complaint({"a", 0}),
              StartsWith("text: the character \"#\" (U+0023) at byte offset 2 "));
  message.set_text("bc");
  EXPECT_THAT(complaint({"a", 0}),
              StartsWith("answer_suffix: the character \"#\" (U+0023) at byte offset 1 "));
  message.set_answer_suffix("de");
  EXPECT_THAT(complaint({"a", 0}, {.max_prompt_tokens = 3}), StartsWith("text: has 4 tokens"));
}

TEST(ToRequestTest, OneSampleOfAKeptState) {
  v1::GenerateRequest message;
  message.set_text("a");
  message.mutable_sampling()->set_n(2);
  EXPECT_THAT(
      Message(ToRequest(message, MakeModel("m", 1), {}, {ContextStart::kSession, 1}).status()),
      HasSubstr("n: is 2, must be 1"));
  EXPECT_TRUE(ToRequest(message, MakeModel("m", 1), {}).ok());
}

TEST(FindModelTest, OfASession) {
  const std::vector<ServedModel> models = {MakeModel("a", 1), MakeModel("b", 1)};
  const SessionRecord session{.model = "b"};
  EXPECT_EQ((*FindModel(models, "", session))->name, "b");
  EXPECT_EQ((*FindModel(models, "b", session))->name, "b");
  EXPECT_EQ(FindModel(models, "a", session).status().code(), absl::StatusCode::kInvalidArgument);
  const auto gone = FindModel(models, "", SessionRecord{.model = "c"});
  EXPECT_EQ(gone.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(gone.status()), HasSubstr("\"c\""));
}

TEST(ToRequestTest, AppendNeedsTokens) {
  v1::AppendSessionRequest message;
  EXPECT_EQ(Message(ToRequest(message, MakeModel("m", 1), {}, {}).status()),
            "text: is empty, must have at least one token to append");
  message.mutable_token_ids()->add_ids(5);
  const auto request = ToRequest(message, MakeModel("m", 1), {}, {});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->purpose, Purpose::kAppend);
  EXPECT_EQ(request->prompt, std::vector<int32_t>{5});
}

TEST(ToRequestTest, RequestGoesBeforeModelDefaultsBeforeOurs) {
  const ServedModel model =
      MakeModel("m", 1, {.numbers = {{"temperature", 0.5}, {"top_k", 40}, {"max_tokens", 99}}});
  v1::GenerateRequest message;
  message.set_text("a");
  message.mutable_sampling()->set_temperature(0);  // 0 is a value
  message.mutable_sampling()->set_seed(0);
  const auto request = ToRequest(message, model, {});
  EXPECT_EQ(request->sampling.temperature, 0);
  EXPECT_EQ(request->sampling.seed, 0u);
  EXPECT_EQ(request->sampling.top_k, 40);
  EXPECT_EQ(request->sampling.max_tokens, 99);
  EXPECT_EQ(request->sampling.top_p, 1);
  message.clear_sampling();
  const auto defaults = ToRequest(message, model, {});
  EXPECT_EQ(defaults->sampling.temperature, 0.5);
  EXPECT_FALSE(defaults->sampling.seed.has_value());
}

TEST(ToRequestTest, CutsADefaultToWhatTheContextLeaves) {
  const ContextStart session{ContextStart::kSession, 60};
  const auto max_tokens = [&](const ServedModel& model, std::optional<int32_t> asked) {
    v1::GenerateRequest message;
    message.set_text(std::string(30, 'a'));
    if (asked) message.mutable_sampling()->set_max_tokens(*asked);
    return ToRequest(message, model, {}, session)->sampling.max_tokens;
  };
  const ServedModel with_default = MakeModel("m", 1, {.numbers = {{"max_tokens", 50}}}, 100);
  EXPECT_EQ(max_tokens(with_default, std::nullopt), 10);
  EXPECT_EQ(max_tokens(with_default, 50), 50);  // the engine refuses it
  EXPECT_EQ(max_tokens(MakeModel("m", 1, {}, 100), std::nullopt), 10);
  EXPECT_EQ(max_tokens(MakeModel("m", 1, {}, 200), std::nullopt), 16);
  EXPECT_EQ(max_tokens(MakeModel("m", 1, {}, 90), std::nullopt), 1);
  EXPECT_EQ(max_tokens(MakeModel("m", 1, {.numbers = {{"max_tokens", 50}}}), std::nullopt), 50);
}

TEST(ToRequestTest, RaisesADefaultToMinTokens) {
  const auto max_tokens = [](const ServedModel& model, std::optional<int32_t> asked) {
    v1::GenerateRequest message;
    message.set_text("abc");
    message.mutable_sampling()->set_min_tokens(60);
    if (asked) message.mutable_sampling()->set_max_tokens(*asked);
    return ToRequest(message, model, {})->sampling.max_tokens;
  };
  for (const int64_t context : {int64_t{0}, int64_t{100}}) {
    EXPECT_EQ(max_tokens(MakeModel("m", 1, {}, context), std::nullopt), 60);
    EXPECT_EQ(
        max_tokens(MakeModel("m", 1, {.numbers = {{"max_tokens", 50}}}, context), std::nullopt),
        60);
    EXPECT_EQ(
        max_tokens(MakeModel("m", 1, {.numbers = {{"max_tokens", 70}}}, context), std::nullopt),
        70);
    EXPECT_EQ(max_tokens(MakeModel("m", 1, {}, context), 50), 50);  // the engine refuses it
  }
  EXPECT_EQ(max_tokens(MakeModel("m", 1, {}, 50), std::nullopt), 60);  // and this
}

TEST(ToRequestTest, LimitToContextLeavesWhatTheContextHolds) {
  const ServedModel bounded = MakeModel("m", 1, {}, 100);
  const ServedModel endless = MakeModel("m", 1);
  const ServedModel with_default = MakeModel("m", 1, {.numbers = {{"max_tokens", 50}}}, 100);
  const ContextStart session{ContextStart::kSession, 60};
  const auto max_tokens = [](const ServedModel& model, const ContextStart& start,
                             std::optional<int32_t> asked, int32_t min_tokens = 0) {
    v1::GenerateRequest message;
    message.set_text("abc");
    message.mutable_sampling()->set_limit_to_context(true);
    if (asked) message.mutable_sampling()->set_max_tokens(*asked);
    if (min_tokens > 0) message.mutable_sampling()->set_min_tokens(min_tokens);
    const auto request = ToRequest(message, model, {}, start);
    EXPECT_TRUE(request.ok()) << request.status();
    return request.ok() ? request->sampling.max_tokens : -1;
  };
  EXPECT_EQ(max_tokens(bounded, {}, std::nullopt), 97);
  EXPECT_EQ(max_tokens(bounded, session, std::nullopt), 37);
  EXPECT_EQ(max_tokens(bounded, session, 1000), 37);
  EXPECT_EQ(max_tokens(bounded, session, 36), 36);
  EXPECT_EQ(max_tokens(bounded, session, 0), 0);
  EXPECT_EQ(max_tokens(with_default, {}, std::nullopt), 50);
  EXPECT_EQ(max_tokens(with_default, session, std::nullopt), 37);
  EXPECT_EQ(max_tokens(endless, session, std::nullopt), 4096);
  EXPECT_EQ(max_tokens(endless, session, std::nullopt, 5000), 5000);
  EXPECT_EQ(max_tokens(endless, session, 1'000'000), 1'000'000);
  // The engine refuses these, as it would without.
  EXPECT_EQ(max_tokens(bounded, session, std::nullopt, 38), 38);
  EXPECT_EQ(max_tokens(bounded, {ContextStart::kSession, 98}, std::nullopt), 1);
}

TEST(ToRequestTest, EverySamplingFieldArrives) {
  v1::GenerateRequest message;
  message.set_text("a");
  v1::SamplingParams& m = *message.mutable_sampling();
  m.set_top_k(2);
  m.set_top_p(0.25f);
  m.set_min_p(0.125f);
  m.set_presence_penalty(0.5f);
  m.set_frequency_penalty(-0.5f);
  m.set_repetition_penalty(1.5f);
  m.add_stop("x");
  m.add_stop_token_ids(4);
  m.set_include_stop_str_in_output(true);
  m.set_max_tokens(5);
  m.set_min_tokens(3);
  m.add_allowed_token_ids(6);
  m.set_logprobs(0);
  m.set_prompt_logprobs(2);
  (*m.mutable_logit_bias())[8] = -1.5f;
  m.set_ignore_eos(true);
  m.set_n(3);
  m.set_echo(true);
  const SamplingParams p = ToRequest(message, MakeModel("m", 1), {})->sampling;
  EXPECT_EQ(p.top_k, 2);
  EXPECT_EQ(p.top_p, 0.25f);
  EXPECT_EQ(p.min_p, 0.125f);
  EXPECT_EQ(p.presence_penalty, 0.5f);
  EXPECT_EQ(p.frequency_penalty, -0.5f);
  EXPECT_EQ(p.repetition_penalty, 1.5f);
  EXPECT_THAT(p.stop, ElementsAre("x"));
  EXPECT_THAT(p.stop_token_ids, ElementsAre(4));
  EXPECT_TRUE(p.include_stop_str_in_output);
  EXPECT_EQ(p.max_tokens, 5);
  EXPECT_EQ(p.min_tokens, 3);
  EXPECT_THAT(p.allowed_token_ids, ElementsAre(6));
  EXPECT_EQ(p.logprobs, 0);
  EXPECT_EQ(p.prompt_logprobs, 2);
  ASSERT_EQ(p.logit_bias.size(), 1);
  EXPECT_EQ(p.logit_bias[0].id, 8);
  EXPECT_EQ(p.logit_bias[0].bias, -1.5f);
  EXPECT_TRUE(p.ignore_eos);
  EXPECT_EQ(p.n, 3);
  EXPECT_TRUE(p.echo);
}

TEST(ToRequestTest, Score) {
  v1::ScoreRequest message;
  EXPECT_THAT(Message(ToRequest(message, MakeModel("m", 1), {}).status()),
              HasSubstr("text: is empty"));
  message.set_text("ab");
  message.set_prepend_eos(true);
  message.set_logprobs(3);
  const auto request = ToRequest(message, MakeModel("m", 1), {});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->request.purpose, Purpose::kScore);
  EXPECT_THAT(request->request.prompt, ElementsAre(1, 'a', 'b'));
  EXPECT_EQ(request->before, 1);
  EXPECT_EQ(request->request.sampling.prompt_logprobs, 3);
  EXPECT_THAT(Message(ToRequest(message, MakeModel("m", std::nullopt), {}).status()),
              HasSubstr("prepend_eos: must be false"));
}

TEST(ToProtoTest, DeltasOfASampleAreJoined) {
  const ByteIds tokenizer;
  v1::SampleDelta message;
  Delta first{.index = 2, .text = "a", .tokens = {{.token = {.id = 97, .logprob = -1, .rank = 3}}}};
  first.tokens[0].top = {{.id = 98, .logprob = -0.5f, .rank = 1}};
  const Delta last{.index = 2,
                   .text = "b",
                   .tokens = {{.token = {.id = 98}}},
                   .finish = FinishReason::kStop,
                   .stop_string = "b"};
  ToProto(first, tokenizer, /*with_logprobs=*/true, &message);
  ToProto(last, tokenizer, /*with_logprobs=*/true, &message);
  EXPECT_EQ(message.index(), 2);
  EXPECT_EQ(message.text(), "ab");
  EXPECT_THAT(message.token_ids(), ElementsAre(97, 98));
  ASSERT_EQ(message.logprobs_size(), 2);
  EXPECT_EQ(message.logprobs(0).token().token(), "a");
  EXPECT_EQ(message.logprobs(0).token().rank(), 3);
  EXPECT_EQ(message.logprobs(0).top(0).token_id(), 98);
  EXPECT_EQ(message.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(message.stop_string(), "b");

  v1::SampleDelta without;
  ToProto(first, tokenizer, /*with_logprobs=*/false, &without);
  EXPECT_EQ(without.logprobs_size(), 0);
}

TEST(ToSteadyTest, KeepsWhatIsLeft) {
  using std::chrono::system_clock;
  EXPECT_EQ(ToSteady(system_clock::time_point::max()), SteadyTime::max());
  const auto before = std::chrono::steady_clock::now();
  const SteadyTime converted = ToSteady(system_clock::now() + std::chrono::hours(1));
  EXPECT_GT(converted, before + std::chrono::minutes(59));
  EXPECT_LT(converted, before + std::chrono::hours(2));
  EXPECT_LT(ToSteady(system_clock::now() - std::chrono::seconds(1)),
            std::chrono::steady_clock::now());
}

}  // namespace
}  // namespace tvq
