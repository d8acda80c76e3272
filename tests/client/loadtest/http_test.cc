// What is read of the gateway's answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/loadtest/http/answers.h"
#include "client/loadtest/http/sse_parser.h"
#include "client/loadtest/http/url.h"

namespace tvq::loadtest {
namespace {

std::vector<std::string> Events(const std::vector<std::string>& pieces) {
  SseParser parser;
  std::vector<std::string> events;
  for (const std::string& piece : pieces) {
    EXPECT_TRUE(parser.Feed(piece, [&](std::string_view data) { events.emplace_back(data); }));
  }
  return events;
}

TEST(SseParser, IsTheSameWhereverItIsCut) {
  const std::string stream =
      "data: one\n\n: a comment\ndata:two\r\ndata:  lines\r\n\r\nid: 7\n\ndata\n\ndata: "
      "cr\r\rdata: begun\n";
  const std::vector<std::string> expected = {"one", "two\n lines", "", "cr"};
  EXPECT_EQ(Events({stream}), expected);
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    EXPECT_EQ(Events({stream.substr(0, cut), stream.substr(cut)}), expected) << cut;
  }
  std::vector<std::string> bytes;
  for (const char c : stream) bytes.emplace_back(1, c);
  EXPECT_EQ(Events(bytes), expected);
}

TEST(SseParser, RefusesAnEventWithoutEnd) {
  const std::string piece(1 << 20, 'x');
  for (const char* begin : {"", "data: "}) {
    SseParser parser;
    bool ok = true;
    for (int i = 0; i < 6 && ok; ++i) {
      ok = parser.Feed(begin + piece + (*begin != '\0' ? "\n" : ""),
                       [](std::string_view) { FAIL(); });
    }
    EXPECT_FALSE(ok);
  }
}

TEST(CompletionEvent, CountsTokensAsFarAsItCan) {
  const auto tokens = [](const std::string& choice) {
    return ReadCompletionEvent(R"({"id":"x","choices":[{"index":0,)" + choice +
                               R"(,"logprobs":null,"finish_reason":null}],"usage":null})")
        .tokens;
  };
  EXPECT_EQ(tokens(R"("text":"a few words")"), 1);
  EXPECT_EQ(tokens(R"("text": "a")"), 1);
  EXPECT_EQ(tokens(R"("text":"\"\"")"), 1);
  EXPECT_EQ(tokens(R"("text":"")"), 0);
  EXPECT_EQ(tokens(R"("text": "")"), 0);
  EXPECT_EQ(tokens(R"("text":null)"), 0);
  EXPECT_EQ(tokens(R"("text":"abc","token_ids":[1, 22,333])"), 3);
  EXPECT_EQ(tokens(R"("text":"","token_ids":[5])"), 1);
  EXPECT_EQ(tokens(R"("text":"","token_ids":[])"), 0);
  EXPECT_EQ(tokens(R"("text":"a","token_ids":null)"), 1);
  EXPECT_TRUE(ReadCompletionEvent("[DONE]").done);
}

TEST(CompletionEvent, ReadsTheUsage) {
  const auto event = ReadCompletionEvent(
      R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9,"total_tokens":16,)"
      R"("prompt_tokens_details":{"cached_tokens":5}}})");
  ASSERT_TRUE(event.usage);
  EXPECT_EQ(event.usage->prompt_tokens, 7);
  EXPECT_EQ(event.usage->cached_tokens, 5);
  EXPECT_EQ(event.usage->completion_tokens, 9);
  EXPECT_EQ(event.tokens, 0);
}

TEST(CompletionEvent, TextIsNotTakenForKeys) {
  const auto event = ReadCompletionEvent(
      R"({"choices":[{"text":"\"usage\":{\"prompt_tokens\":1},\"error\":{}"}],"usage":null})");
  EXPECT_EQ(event.tokens, 1);
  EXPECT_FALSE(event.usage);
  EXPECT_FALSE(event.error);
}

TEST(CompletionEvent, ReadsAnError) {
  EXPECT_EQ(ReadCompletionEvent(R"({"error":{"message":"it broke","type":"server_error"}})").error,
            "it broke");
  EXPECT_TRUE(ReadCompletionEvent(R"({"error":{"no":)").error);
  EXPECT_FALSE(ReadCompletionEvent(R"({"error":null,"choices":[]})").error);
}

TEST(CompletionEvent, TakesAnything) {
  for (const char* data :
       {"", "{", "[]", "null", R"("usage":{)", R"("usage":{"prompt_tokens":"x"}})",
        R"({"usage":{"prompt_tokens":1.5,"prompt_tokens_details":null}})"}) {
    const auto event = ReadCompletionEvent(data);
    EXPECT_EQ(event.usage.value_or(CompletionEvent::Usage()).prompt_tokens, 0) << data;
  }
}

TEST(ErrorMessage, IsTheObjectsOrTheBody) {
  EXPECT_EQ(ErrorMessage(R"({"error":{"message":"m"}})"), "m");
  EXPECT_EQ(ErrorMessage("<html>502</html>"), "<html>502</html>");
  EXPECT_EQ(ErrorMessage(R"({"error":"m"})"), R"({"error":"m"})");
  EXPECT_LE(ErrorMessage(std::string(100'000, 'x')).size(), 300);
}

TEST(RetryAfter, PrefersMilliseconds) {
  EXPECT_EQ(RetryAfterOf("1500", "2"), 1500 * kMillisecond);
  EXPECT_EQ(RetryAfterOf("", "2"), 2 * kSecond);
  EXPECT_EQ(RetryAfterOf("x", "0"), 0);
  EXPECT_EQ(RetryAfterOf("", ""), std::nullopt);
  EXPECT_EQ(RetryAfterOf("-1", "Wed, 21 Oct 2015 07:28:00 GMT"), std::nullopt);
}

TEST(Url, Parts) {
  const auto url = ParseUrl("http://localhost:8000/api/");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->authority(), "localhost:8000");
  EXPECT_EQ(url->prefix, "/api");
  EXPECT_FALSE(url->tls);
  EXPECT_EQ(ParseUrl("https://example.org")->authority(), "example.org:443");
  EXPECT_EQ(ParseUrl("http://[::1]:80")->authority(), "[::1]:80");
  EXPECT_EQ(ParseUrl("http://[::1]")->host, "::1");
  for (const char* text :
       {"", "localhost:80", "ftp://x", "http://", "http://:80", "http://x:0", "http://x:y",
        "http://x:70000", "http://a b", "http://user@x", "http://x/?q", "http://[::1"}) {
    EXPECT_FALSE(ParseUrl(text).ok()) << text;
  }
}

}  // namespace
}  // namespace tvq::loadtest
