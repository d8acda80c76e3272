#include "client/gateway/bodies/completions_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "google/protobuf/text_format.h"

namespace tvq::gateway {
namespace {

using Json = nlohmann::json;

v1::GenerateResponse Message(const std::string& text) {
  v1::GenerateResponse message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

CompletionsRequest RequestOf(const std::string& body) {
  auto request = ParseCompletions(body, "");
  EXPECT_TRUE(request.ok()) << request.status();
  return *std::move(request);
}

const AnswerHead kHead = {.id = "cmpl-1", .model = "m\"", .created = 7};

// The documents of the events.
std::vector<Json> Documents(const std::string& events) {
  std::vector<Json> documents;
  for (size_t at = 0; at < events.size();) {
    const size_t end = events.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    EXPECT_EQ(events.substr(at, 6), "data: ");
    documents.push_back(Json::parse(events.substr(at + 6, end - at - 6)));
    at = end + 2;
  }
  return documents;
}

TEST(CompletionsEventsTest, PiecesOfTwoPromptsWithTwoSamples) {
  const auto request = RequestOf(R"({"prompt": ["a", "b"], "n": 2, "stream": true,
                    "stream_options": {"include_usage": true}})");
  CompletionsEvents events(request, kHead);
  std::string out;
  events.Append(1, Message(R"(deltas { index: 1 text: "x\n" token_ids: 5 })"), &out);
  events.Append(0, Message(R"(deltas { index: 0 text: "" token_ids: 5 })"),
                &out);  // half a character
  events.Append(
      0, Message(R"(deltas { index: 0 text: "\303\244" finish_reason: FINISH_REASON_LENGTH })"),
      &out);
  events.Append(0, Message("usage { prompt_tokens: 1 completion_tokens: 2 cached_tokens: 3 }"),
                &out);
  events.Append(1, Message("usage { prompt_tokens: 10 completion_tokens: 20 cached_tokens: 30 }"),
                &out);
  events.AppendEnd(&out);
  const std::vector<Json> documents = Documents(out);
  ASSERT_EQ(documents.size(), 3);
  EXPECT_EQ(documents[0], Json::parse(R"({"id": "cmpl-1", "object": "text_completion", "created": 7,
    "model": "m\"", "usage": null, "choices": [{"index": 3, "text": "x\n", "logprobs": null,
    "finish_reason": null, "stop_reason": null}]})"));
  EXPECT_EQ(documents[1]["choices"][0]["index"], 0);
  EXPECT_EQ(documents[1]["choices"][0]["text"], "ä");
  EXPECT_EQ(documents[1]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(documents[2]["choices"], Json::array());
  EXPECT_EQ(documents[2]["usage"], Json::parse(R"({"prompt_tokens": 11, "completion_tokens": 22,
    "total_tokens": 33, "prompt_tokens_details": {"cached_tokens": 33}})"));
}

TEST(CompletionsEventsTest, ReasonsToStop) {
  const auto request = RequestOf(R"({"prompt": "a", "stream": true})");
  for (const auto& [delta, finish, stop] : {
           std::tuple(R"(finish_reason: FINISH_REASON_STOP)", Json("stop"), Json()),
           std::tuple(R"(finish_reason: FINISH_REASON_STOP stop_string: "\"")", Json("stop"),
                      Json("\"")),
           std::tuple(R"(finish_reason: FINISH_REASON_STOP stop_token_id: 9)", Json("stop"),
                      Json(9)),
           std::tuple(R"(finish_reason: FINISH_REASON_CANCELLED)", Json("abort"), Json()),
       }) {
    CompletionsEvents events(request, kHead);
    std::string out;
    events.Append(0, Message(std::string("deltas {") + delta + "}"), &out);
    const std::vector<Json> documents = Documents(out);
    ASSERT_EQ(documents.size(), 1);
    EXPECT_FALSE(documents[0].contains("usage"));
    EXPECT_EQ(documents[0]["choices"][0]["finish_reason"], finish);
    EXPECT_EQ(documents[0]["choices"][0]["stop_reason"], stop);
  }
}

// A session's position comes after its last text, and belongs to the event that says it is the
// last.
TEST(CompletionsEventsTest, LastEventOfASessionHasItsPosition) {
  const auto request =
      RequestOf(R"({"prompt": "a", "stream": true, "session_id": "s", "return_token_ids": true})");
  CompletionsEvents events(request, kHead);
  std::string out;
  events.Append(
      0, Message(R"(deltas { text: "x" token_ids: 5 finish_reason: FINISH_REASON_LENGTH })"), &out);
  EXPECT_EQ(Documents(out).size(), 1);
  EXPECT_EQ(Documents(out)[0]["choices"][0]["finish_reason"], nullptr);
  events.Append(
      0,
      Message(
          R"(usage {} session { session_id: "s" version: 2 persisted_version: 1 position: 3 })"),
      &out);
  const std::vector<Json> documents = Documents(out);
  ASSERT_EQ(documents.size(), 2);
  EXPECT_EQ(documents[0]["choices"][0]["token_ids"], Json::array({5}));
  EXPECT_EQ(documents[1]["choices"][0]["text"], "");
  EXPECT_EQ(documents[1]["choices"][0]["token_ids"], Json::array());
  EXPECT_EQ(documents[1]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(documents[1]["session"],
            Json::parse(R"({"id": "s", "version": 2, "persisted_version": 1, "position": 3})"));
}

constexpr char kLogprobs[] = R"(prompt_logprobs { token { token_id: 1 token: "\303\244" } }
    prompt_logprobs { token { token_id: 2 token: "b" logprob: -0.5 rank: 1 } has_logprob: true
      top { token_id: 2 token: "b" logprob: -0.5 rank: 1 } })";

TEST(CompletionsEventsTest, EchoedLogprobsComeWithTheFirstEvent) {
  const auto request = RequestOf(
      R"({"prompt": "ab", "stream": true, "logprobs": 1, "echo": true, "prompt_logprobs": 1})");
  CompletionsEvents events(request, kHead);
  std::string out;
  events.Append(0, Message(kLogprobs), &out);
  EXPECT_EQ(out, "");
  events.Append(0, Message(R"(deltas { text: "\303\244b" })"), &out);
  events.Append(0, Message(R"(deltas { token_ids: 3 text: "" logprobs { token { token_id: 3
      token: "\342\202" logprob: -1.25 rank: 2 } has_logprob: true
      top { token_id: 0 logprob: -inf rank: 1 } } })"),
                &out);
  const std::vector<Json> documents = Documents(out);
  ASSERT_EQ(documents.size(), 2);
  EXPECT_EQ(documents[0]["choices"][0]["logprobs"], Json::parse(R"({"tokens": ["ä", "b"],
    "token_logprobs": [null, -0.5], "top_logprobs": [null, {"b": -0.5}], "text_offset": [0, 1]})"));
  EXPECT_EQ(documents[0]["choices"][0]["prompt_logprobs"],
            Json::parse(R"([null, {"2": {"logprob": -0.5, "rank": 1, "decoded_token": "b"}}])"));
  EXPECT_EQ(documents[1]["choices"][0]["logprobs"], Json::parse(R"({"tokens": ["bytes:\\xe2\\x82"],
    "token_logprobs": [-1.25], "top_logprobs": [{"bytes:\\xe2\\x82": -1.25, "token_id:0": -9999}],
    "text_offset": [2]})"));
  EXPECT_FALSE(documents[1]["choices"][0].contains("prompt_logprobs"));
}

// Of a choice: the log-probabilities of all its events, joined.
struct JoinedLogprobs {
  Json logprobs = Json::object();
  Json prompt_logprobs = Json::array();
};

JoinedLogprobs Join(const std::vector<Json>& documents, int index) {
  JoinedLogprobs joined;
  const auto append = [](const Json& from, Json* to) {
    for (const Json& one : from) to->push_back(one);
  };
  for (const Json& document : documents) {
    for (const Json& choice : document["choices"]) {
      if (choice["index"] != index) continue;
      for (const auto& [name, list] : choice["logprobs"].items()) {
        append(list, &joined.logprobs[name]);
      }
      append(choice.value("prompt_logprobs", Json::array()), &joined.prompt_logprobs);
    }
  }
  return joined;
}

// The server echoes the text before it has computed the prompt.
TEST(CompletionsEventsTest, LogprobsThatFollowTheEchoedTextAreThoseOfTheWholeAnswer) {
  const std::vector<std::string> echo_and_prompt = {
      R"(deltas { index: 0 text: "\303\244" } deltas { index: 1 text: "\303\244" })",
      R"(deltas { index: 1 text: "bc" } deltas { index: 0 text: "bc" })", kLogprobs,
      R"(prompt_logprobs { token { token_id: 3 token: "c" logprob: -2 rank: 3 } has_logprob: true
           top { token_id: 2 token: "b" logprob: -1 rank: 1 } })"};
  const std::vector<std::string> token_and_end = {
      R"(deltas { index: 0 text: "d" token_ids: 4 logprobs {
           token { token_id: 4 token: "d" logprob: -3 rank: 1 } has_logprob: true } })",
      R"(deltas { index: 1 text: "e" token_ids: 5 finish_reason: FINISH_REASON_LENGTH logprobs {
           token { token_id: 5 token: "e" logprob: -4 rank: 1 } has_logprob: true } }
         deltas { index: 0 finish_reason: FINISH_REASON_LENGTH })"};
  const std::vector<std::string> end = {R"(deltas { index: 0 finish_reason: FINISH_REASON_LENGTH }
         deltas { index: 1 finish_reason: FINISH_REASON_LENGTH })"};
  for (const auto& [max_tokens, rest, offsets] :
       {std::tuple(0, end, Json({0, 1, 2})), std::tuple(1, token_and_end, Json({0, 1, 2, 3}))}) {
    SCOPED_TRACE(max_tokens);
    Json body = {{"prompt", "äbc"}, {"echo", true}, {"logprobs", 1}, {"prompt_logprobs", 1}};
    body["n"] = 2;
    body["max_tokens"] = max_tokens;
    body["stream"] = true;
    const auto request = RequestOf(body.dump());
    CompletionsEvents events(request, kHead);
    CompletionsWhole whole(request, kHead);
    std::string out;
    for (const auto& messages : {echo_and_prompt, rest}) {
      for (const std::string& message : messages) {
        events.Append(0, Message(message), &out);
        whole.Add(0, Message(message));
      }
    }
    const Json want = Json::parse(whole.ToJson());
    for (int index : {0, 1}) {
      const JoinedLogprobs joined = Join(Documents(out), index);
      const Json& choice = want["choices"][static_cast<size_t>(index)];
      EXPECT_EQ(joined.logprobs, choice["logprobs"]);
      EXPECT_EQ(joined.logprobs["text_offset"], offsets);
      EXPECT_EQ(joined.prompt_logprobs, choice["prompt_logprobs"]);
      EXPECT_EQ(joined.prompt_logprobs.size(), 3);
    }
  }
}

TEST(CompletionsWholeTest, JoinsThePieces) {
  const auto request = RequestOf(
      R"({"prompt": "ab", "n": 2, "logprobs": 1, "return_token_ids": true, "session_id": "s"})");
  CompletionsWhole whole(request, kHead);
  whole.Add(0, Message(R"(deltas { index: 1 text: "x" token_ids: 1 token_ids: 2 }
      deltas { index: 0 text: "y" token_ids: 3 })"));
  whole.Add(0, Message(R"(deltas { index: 1 text: "z" token_ids: 4
      finish_reason: FINISH_REASON_STOP stop_string: "q" })"));
  whole.Add(0, Message(R"(deltas { index: 0 finish_reason: FINISH_REASON_LENGTH }
      usage { prompt_tokens: 2 completion_tokens: 4 } session { session_id: "s" version: 1 })"));
  const Json json = Json::parse(whole.ToJson());
  EXPECT_EQ(json["choices"][0]["text"], "y");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["choices"][1]["text"], "xz");
  EXPECT_EQ(json["choices"][1]["stop_reason"], "q");
  EXPECT_EQ(json["choices"][1]["token_ids"], Json::array({1, 2, 4}));
  EXPECT_EQ(json["usage"]["total_tokens"], 6);
  EXPECT_EQ(json["session"]["version"], 1);
}

}  // namespace
}  // namespace tvq::gateway
