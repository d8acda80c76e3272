#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tvq {
namespace {

using ::testing::HasSubstr;

absl::Status StatusOf(std::string_view text, JsonLimits limits = {}) {
  return ParseJsonObject(text, "f.json", limits).status();
}

TEST(JsonTest, ReadsNestedValues) {
  auto document = ParseJsonObject(R"({"a": [1, -2, {"b": "x"}], "c": null, "d": 1.5, "e": true})",
                                  "f.json", JsonLimits{});
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ((*document)["a"][2]["b"], "x");
  EXPECT_EQ((*document)["a"][1], -2);
  EXPECT_TRUE((*document)["c"].is_null());
  EXPECT_EQ((*document)["d"], 1.5);
  EXPECT_EQ((*document)["e"], true);
}

TEST(JsonTest, NamesSourceAndByteOfASyntaxError) {
  const absl::Status status = StatusOf("{\"a\": 1,, }");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("f.json is not valid JSON near byte 9"));
}

TEST(JsonTest, SaysWhereADocumentEndsTooEarly) {
  EXPECT_EQ(StatusOf("").message(), "f.json is empty, must be a JSON object");
  for (const std::string text :
       {"{", "{\"a", "{\"a\":", "{\"a\": 1", "{\"a\": nul", "{\"a\": [1,"}) {
    EXPECT_EQ(StatusOf(text).message(), "f.json is not valid JSON: it ends at byte " +
                                            std::to_string(text.size()) + ", before it is complete")
        << text;
  }
}

TEST(JsonTest, RefusesWhatIsNotOneObject) {
  for (const char* text : {"", " ", "[]", "3", "\"x\"", "{} {}", "{", "{\"a\":}", "nul"}) {
    EXPECT_EQ(StatusOf(text).code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(JsonTest, RefusesAKeyGivenTwice) {
  EXPECT_THAT(std::string(StatusOf(R"({"a": {"b": 1, "b": 1}})").message()),
              HasSubstr("the key \"b\" twice"));
  EXPECT_TRUE(StatusOf(R"({"a": {"b": 1}, "b": {"a": 2}})").ok());
}

TEST(JsonTest, RefusesDepthBeyondTheLimit) {
  EXPECT_TRUE(StatusOf(R"({"a": [[0]]})", {.depth = 3}).ok());
  EXPECT_THAT(std::string(StatusOf(R"({"a": [[[0]]]})", {.depth = 3}).message()),
              HasSubstr("nests deeper than 3"));
  EXPECT_FALSE(StatusOf("{\"a\":" + std::string(1'000'000, '[')).ok());
}

TEST(JsonTest, RefusesMoreValuesThanTheLimit) {
  EXPECT_TRUE(StatusOf(R"({"a": [1, 2]})", {.values = 4}).ok());
  EXPECT_THAT(std::string(StatusOf(R"({"a": [1, 2, 3]})", {.values = 4}).message()),
              HasSubstr("more than 4 values"));
}

TEST(JsonTest, RefusesInvalidUtf8AndNumbersThatOverflow) {
  EXPECT_FALSE(StatusOf("{\"a\": \"\xff\"}").ok());
  EXPECT_FALSE(StatusOf("{\"a\": 1e999}").ok());
  EXPECT_FALSE(StatusOf("{\"a\": NaN}").ok());
}

TEST(JsonTest, ALineEndsNowhereButAtItsEnd) {
  const std::string text = "a\xC2\x85\xE2\x80\xA8\xE2\x80\xA9\xC2\x86";
  const std::string line = JsonLine(nlohmann::json({{"a", text}}).dump());
  EXPECT_EQ(line, "{\"a\":\"a\\u0085\\u2028\\u2029\xC2\x86\"}");
  EXPECT_EQ(nlohmann::json::parse(line)["a"], text);
}

}  // namespace
}  // namespace tvq
