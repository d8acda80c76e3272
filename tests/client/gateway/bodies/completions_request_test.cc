#include "client/gateway/bodies/completions_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"

namespace tvq::gateway {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

CompletionsRequest Parse(const std::string& body) {
  auto request = ParseCompletions(body, "");
  EXPECT_TRUE(request.ok()) << body << ": " << request.status();
  return request.ok() ? *std::move(request) : CompletionsRequest();
}

std::string Error(const std::string& body) {
  const auto request = ParseCompletions(body, "");
  EXPECT_FALSE(request.ok()) << body;
  EXPECT_TRUE(request.ok() || absl::IsInvalidArgument(request.status()));
  return std::string(request.status().message());
}

TEST(CompletionsRequestTest, ReadsEveryField) {
  const CompletionsRequest request = Parse(R"({
    "model": "m", "prompt": "a", "max_tokens": 5, "temperature": 0.5, "top_p": 1, "top_k": -1,
    "min_p": 0.25, "presence_penalty": -1, "frequency_penalty": 2, "repetition_penalty": 1.5,
    "seed": -1, "stop": "s", "stop_token_ids": [7], "include_stop_str_in_output": true,
    "min_tokens": 2, "allowed_token_ids": [1, 2.0], "logprobs": 3, "prompt_logprobs": 4,
    "logit_bias": {"8": -100}, "ignore_eos": true, "n": 6, "echo": true, "priority": 9,
    "stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": true},
    "return_token_ids": true, "add_special_tokens": false, "user": "u", "something": {"else": [1]}})");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.n, 6);
  EXPECT_TRUE(request.stream && request.include_usage && request.echo && request.logprobs &&
              request.prompt_logprobs && request.return_token_ids);
  ASSERT_EQ(request.calls.size(), 1);
  const v1::GenerateRequest& call = request.calls[0];
  EXPECT_EQ(call.model(), "m");
  EXPECT_EQ(call.text(), "a");
  EXPECT_EQ(call.priority(), 9);
  EXPECT_TRUE(call.has_add_special_tokens() && !call.add_special_tokens());
  EXPECT_FALSE(call.has_session());
  const v1::SamplingParams& sampling = call.sampling();
  EXPECT_EQ(sampling.max_tokens(), 5);
  EXPECT_FLOAT_EQ(sampling.temperature(), 0.5F);
  EXPECT_FLOAT_EQ(sampling.top_p(), 1);
  EXPECT_EQ(sampling.top_k(), -1);
  EXPECT_FLOAT_EQ(sampling.min_p(), 0.25F);
  EXPECT_FLOAT_EQ(sampling.presence_penalty(), -1);
  EXPECT_FLOAT_EQ(sampling.frequency_penalty(), 2);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty(), 1.5F);
  EXPECT_EQ(sampling.seed(), UINT64_MAX);
  EXPECT_THAT(sampling.stop(), ElementsAre("s"));
  EXPECT_THAT(sampling.stop_token_ids(), ElementsAre(7));
  EXPECT_TRUE(sampling.include_stop_str_in_output());
  EXPECT_EQ(sampling.min_tokens(), 2);
  EXPECT_THAT(sampling.allowed_token_ids(), ElementsAre(1, 2));
  EXPECT_EQ(sampling.logprobs(), 3);
  EXPECT_EQ(sampling.prompt_logprobs(), 4);
  EXPECT_FLOAT_EQ(sampling.logit_bias().at(8), -100);
  EXPECT_TRUE(sampling.ignore_eos() && sampling.echo());
  EXPECT_EQ(sampling.n(), 6);
}

TEST(CompletionsRequestTest, NullIsAbsent) {
  const CompletionsRequest request = Parse(
      R"({"model": null, "prompt": null, "max_tokens": null, "stop": null, "logit_bias": null,
          "stream_options": null, "suffix": null, "best_of": null, "session_id": null})");
  ASSERT_EQ(request.calls.size(), 1);
  EXPECT_EQ(request.calls[0].prompt_case(), v1::GenerateRequest::PROMPT_NOT_SET);
  EXPECT_FALSE(request.calls[0].sampling().has_max_tokens());
  EXPECT_FALSE(request.stream);
}

TEST(CompletionsRequestTest, SeedsOfAllSigns) {
  for (const auto& [seed, value] :
       std::vector<std::pair<std::string, uint64_t>>{{"18446744073709551615", UINT64_MAX},
                                                     {"9223372036854775808", uint64_t{1} << 63},
                                                     {"-9223372036854775808", uint64_t{1} << 63},
                                                     {"-1", UINT64_MAX},
                                                     {"7.0", 7}}) {
    const auto request = Parse(R"({"seed": )" + seed + "}");
    EXPECT_EQ(request.calls[0].sampling().seed(), value) << seed;
  }
}

TEST(CompletionsRequestTest, PromptsOfAllForms) {
  EXPECT_THAT(Parse(R"({"prompt": [1, 2]})").calls[0].token_ids().ids(), ElementsAre(1, 2));
  const auto texts = Parse(R"({"prompt": ["a", ""]})");
  ASSERT_EQ(texts.calls.size(), 2);
  EXPECT_EQ(texts.calls[0].text(), "a");
  EXPECT_EQ(texts.calls[1].text(), "");
  const auto lists = Parse(R"({"prompt": [[1], [2, 3], []]})");
  ASSERT_EQ(lists.calls.size(), 3);
  EXPECT_THAT(lists.calls[1].token_ids().ids(), ElementsAre(2, 3));
  for (const char* prompt : {"1", "{}", "[]", R"(["a", 1])", R"([[1], "a"])", "[true]",
                             R"([["a"]])", "[[1.5]]", "[1e10]", "[null]", "[{}]"}) {
    EXPECT_THAT(Error(std::string(R"({"prompt": )") + prompt + "}"), StartsWith("prompt"));
  }
}

TEST(CompletionsRequestTest, ErrorsNameThePromptOfAList) {
  const absl::Status empty = Refused(Reason::kValueMissing, "token_ids", "is empty");
  const auto param = [&](const std::string& body) {
    return ToCompletionsError(empty, Parse(body), 0).param;
  };
  EXPECT_EQ(param(R"({"prompt": ""})"), "prompt");
  EXPECT_EQ(param(R"({"prompt": [1]})"), "prompt");
  EXPECT_EQ(param(R"({"prompt": [[]]})"), "prompt[0]");
  EXPECT_EQ(param(R"({"prompt": ["a"]})"), "prompt[0]");
}

TEST(CompletionsRequestTest, ErrorsNameTheField) {
  for (const auto& [body, begin] : {
           std::pair(R"({"model": 1})", "model: "),
           std::pair(R"({"max_tokens": "5"})",
                     "max_tokens: is \"5\", must be an integer of 32 bits"),
           std::pair(R"({"max_tokens": 1.5})", "max_tokens: is 1.5, must be an integer"),
           std::pair(R"({"max_tokens": 3000000000})", "max_tokens: is 3000000000, must be an"),
           std::pair(R"({"max_tokens": true})", "max_tokens: is true, must be an integer"),
           std::pair(R"({"max_tokens": [1]})", "max_tokens: is a list, must be an integer"),
           std::pair(R"({"temperature": "hot"})", "temperature: is \"hot\", must be a number"),
           std::pair(R"({"temperature": 1e300})",
                     "temperature: is 1e+300, must be a number of 32 bits"),
           std::pair(R"({"seed": 18446744073709551616})", "seed: "),
           std::pair(R"({"seed": 1.5})", "seed: "),
           std::pair(R"({"stop": [1]})", "stop[0]: "),
           std::pair(R"({"stop": {}})", "stop: "),
           std::pair(R"({"logit_bias": {"x": 1}})", "logit_bias: "),
           std::pair(R"({"limit_to_context": 1})", "limit_to_context: "),
           std::pair(R"({"logit_bias": {"1": "x"}})", "logit_bias.1: "),
           std::pair(R"({"logit_bias": [1]})", "logit_bias: "),
           std::pair(R"({"stream": "yes"})", "stream: "),
           std::pair(R"({"stream_options": {"include_usage": true}})", "stream_options: "),
           std::pair(R"({"stream": true, "stream_options": {"include_usage": 1}})",
                     "stream_options.include_usage: "),
           std::pair(R"({"suffix": "x"})", "suffix: "),
           std::pair(R"({"best_of": 2})", "best_of: "),
           std::pair(R"({"prompt": []})", "prompt: is an empty list"),
           std::pair(R"({"messages": [{"role": "user", "content": "a"}]})",
                     "prompt: must be given; messages are for /v1/chat/completions"),
           std::pair(R"({"durability": "paper"})", "durability: "),
           std::pair(R"({"durability": "disk"})", "durability: must be left out without"),
           std::pair(R"({"expected_version": 3})", "expected_version: must be left out without"),
           std::pair(R"({"commit_on_cancel": true})", "commit_on_cancel: must be left out without"),
           std::pair(R"({"session_id": "s", "prompt": ["a", "b"]})", "session_id: "),
       }) {
    EXPECT_THAT(Error(body), StartsWith(begin)) << body;
  }
}

// Two names that mean one id would be taken, and one of their values lost.
TEST(CompletionsRequestTest, NamesOfBiasesAreIdsAsTheyAreWritten) {
  for (const char* name : {" 5", "5 ", "+5", "05", "-0", "0x5", "5.0", "1e1", "", "2147483648"}) {
    EXPECT_THAT(Error(absl::StrCat(R"({"logit_bias": {"5": 1, ")", name, R"(": 2}})")),
                AllOf(StartsWith("logit_bias: "), HasSubstr(absl::StrCat("\"", name, "\""))))
        << name;
  }
  EXPECT_THAT(Error(R"({"logit_bias": {"\u000a\"": 2}})"), HasSubstr(R"("\n\"")"));
  const auto request = Parse(R"({"logit_bias": {"5": 1, "0": 2, "-1": 3}, "prompt": "a"})");
  EXPECT_EQ(request.calls[0].sampling().logit_bias_size(), 3);  // -1 the server refuses by its name
}

TEST(CompletionsRequestTest, LimitToContext) {
  const auto limit = [](const std::string& body) {
    return Parse(body).calls[0].sampling().limit_to_context();
  };
  EXPECT_TRUE(limit(R"({"max_tokens": 1000, "limit_to_context": true})"));
  EXPECT_FALSE(limit(R"({"limit_to_context": false})"));
  EXPECT_FALSE(limit("{}"));
}

TEST(CompletionsRequestTest, BodiesThatAreNoObjects) {
  for (const std::string body : {"", "[]", "1", "{", R"({"a": 1}x)", "{\"a\": \"\xff\"}",
                                 R"({"a": "\ud800"})", "{'a': 1}", R"({"a": 1e999})", "nan"}) {
    EXPECT_THAT(Error(body), HasSubstr("body")) << body;
  }
  EXPECT_THAT(Error(R"({"a": )" + std::string(100'000, '[')), HasSubstr("levels"));
  // A bracket in a string is none.
  Parse(R"({"prompt": ")" + std::string(100, '[') + R"("})");
}

// As Python's reader does.
TEST(CompletionsRequestTest, LastOfTwoFieldsCounts) {
  EXPECT_EQ(Parse(R"({"prompt": "a", "prompt": "b"})").calls[0].text(), "b");
}

TEST(CompletionsRequestTest, Session) {
  const auto request =
      ParseCompletions(R"({"session_id": "s", "expected_version": 0, "durability": "disk",
                           "commit_on_cancel": true, "prompt": "a"})",
                       "key");
  ASSERT_TRUE(request.ok());
  const v1::SessionCall& session = request->calls[0].session();
  EXPECT_EQ(session.session_id(), "s");
  EXPECT_TRUE(session.has_expected_version());
  EXPECT_EQ(session.expected_version(), 0);
  EXPECT_EQ(session.durability(), v1::DURABILITY_DISK);
  EXPECT_EQ(session.idempotency_key(), "key");
  EXPECT_TRUE(session.commit_on_cancel());
}

// The probabilities of an echoed prompt come from the server only where it is asked for them.
TEST(CompletionsRequestTest, EchoWithLogprobsAsksForThePrompts) {
  const auto request = Parse(R"({"echo": true, "logprobs": 2, "prompt": "a"})");
  EXPECT_EQ(request.calls[0].sampling().prompt_logprobs(), 2);
  EXPECT_FALSE(request.prompt_logprobs);
}

// The server refuses such a number; until then it must not cost memory.
TEST(CompletionsRequestTest, HugeNumberOfSamplesCostsNothing) {
  const auto request = Parse(R"({"n": 2147483647, "prompt": "a"})");
  EXPECT_EQ(request.calls[0].sampling().n(), 2147483647);
  EXPECT_LE(request.n, 128);
}

}  // namespace
}  // namespace tvq::gateway
