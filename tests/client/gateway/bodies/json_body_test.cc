#include "client/gateway/bodies/json_body.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "client/gateway/bodies/chat_request.h"

namespace {

// Bytes that were allocated and not freed, and the most there were.
std::atomic<size_t> now = 0, most = 0;

}  // namespace

void* operator new(size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  now += malloc_usable_size(memory);
  most = std::max<size_t>(most, now);
  return memory;
}

void operator delete(void* memory) noexcept {
  now -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace tvq::gateway {
namespace {

std::string Repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(JsonBodyTest, SaysWhereItIsNoJson) {
  const auto message = [](std::string_view body) {
    return std::string(ParseObject(body).status().message());
  };
  EXPECT_EQ(message(""), "the body is empty, must be a JSON object");
  EXPECT_EQ(message("{"), "the body is not valid JSON: it ends at byte 1, before it is complete");
  EXPECT_EQ(message("{\"a\": \"b"),
            "the body is not valid JSON: it ends at byte 8, before it is complete");
  const auto words = [&](const char* body) {
    return absl::StrCat(message(body))
        .substr(std::string("the body is not valid JSON in UTF-8: ").size());
  };
  EXPECT_EQ(words("{\"a\": 1,}"), "line 1, column 9: unexpected '}'; expected string literal");
  EXPECT_EQ(words("{\n'a': 1}"),
            "line 2, column 1: invalid literal; expected string literal; the last that was read is "
            "\"{<U+000A>'\"");
  EXPECT_EQ(words("{\"a\": \"\\ud800x\"}"),
            "line 1, column 14: invalid string: surrogate U+D800..U+DBFF must be followed by "
            "U+DC00..U+DFFF; the last that was read is \"\\\"\\\\ud800x\"");
  EXPECT_EQ(words("{\"a\": \"it's; expected\xff\"}"),
            "line 1, column 22: invalid string: ill-formed UTF-8 byte; the last that was read is "
            "\"\\\"it's; expected\\xFF\"");
  const std::string text(1000, 'x');
  EXPECT_EQ(words(("[\"" + text + "\n").c_str()).size(),
            words(("[\"" + text + text + "\n").c_str()).size());
  EXPECT_EQ(message("[]"), "the body must be a JSON object");
}

// And is not so much more that ordinary bodies would be refused.
TEST(JsonBodyTest, MemoryOfParsing) {
  constexpr int kMany = 70'000;  // the array has just doubled
  std::string members;
  for (int i = 0; i < kMany; ++i) members += "\"name" + std::to_string(i) + "\":1,";
  for (const std::string& body :
       {"{\"a\":[" + Repeat("{},", kMany) + "{}]}", "{\"a\":[" + Repeat("[],", kMany) + "[]]}",
        "{\"a\":[" + Repeat("[1],", kMany) + "[]]}",
        "{\"a\":[" + Repeat("{\"\":1},", kMany) + "0]}",
        "{\"a\":[" + Repeat("\"\",", kMany) + "0]}", "{\"a\":[" + Repeat("1,", kMany) + "0]}",
        "{\"a\":[" + Repeat("\"sixteen letters.\",", kMany) + "0]}", "{" + members + "\"a\":1}",
        "{\"" + std::string(1'000'000, 'x') + "\":\"" + std::string(1'000'000, 'x') + "\"}",
        Repeat("{\"a\":", 30) + "0" + Repeat("}", 30), std::string("{}")}) {
    const size_t before = now;
    most = before;
    const absl::StatusOr<Json> json = ParseObject(body);
    ASSERT_TRUE(json.ok()) << json.status();
    const size_t taken = most - before;
    EXPECT_LE(taken, ParsingMemory(body) + 1000) << body.substr(0, 40);
    EXPECT_LE(ParsingMemory(body), 6 * taken + 1000) << body.substr(0, 40);
  }
}

// What is read of a body takes no more than to read the body.
TEST(JsonBodyTest, MemoryOfConversations) {
  constexpr int kMany = 70'000;
  const std::string text(1'000'000, 'x'), begin = R"({"messages":[)";
  std::string members;
  for (int i = 0; i < kMany; ++i) absl::StrAppend(&members, "\"n", i, "\":1,");
  const std::string bodies[] = {
      absl::StrCat(begin, R"({"role":"user","content":")", text, R"("}]})"),
      absl::StrCat(begin, R"({"role":"user","content":[{"type":"text","text":")", text,
                   R"("}]}]})"),
      absl::StrCat(begin, Repeat(R"({"role":"user","content":"hello"},)", kMany),
                   R"({"role":"user","content":""}]})"),
      absl::StrCat(begin, "{", members, R"("role":"user","content":"hello"}]})"),
      absl::StrCat(
          begin,
          R"({"role":"assistant","content":"","tool_calls":[{"function":{"arguments":"{\"a\":\")",
          text, R"(\"}"}}]}]})"),
      absl::StrCat(begin, R"({"role":"user","content":"","a":[)", Repeat("0,", kMany), "0]}]}"),
      absl::StrCat(begin, R"({"role":"user","content":""}],"tools":[)",
                   Repeat(R"({"":{}},)", kMany), "{}]}")};
  for (const std::string& body : bodies) {
    const size_t before = now;
    most = before;
    ASSERT_TRUE(ParseObject(body).ok());
    const size_t parsing = most - before;
    most = before;
    const absl::StatusOr<ChatRequest> request = ParseChat(body, "");
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_LE(most - before, std::max(parsing, ParsingMemory(body)) + 200'000)
        << body.substr(0, 100);
    EXPECT_LE(now - before, request->MemoryBytes() * 21 / 20 + 2000) << body.substr(0, 100);
  }
}

}  // namespace
}  // namespace tvq::gateway
