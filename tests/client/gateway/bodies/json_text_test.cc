#include "client/gateway/bodies/json_text.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace tvq::gateway {
namespace {

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(text, &out);
  return out;
}

TEST(JsonTextTest, EveryCharacterComesBack) {
  std::string text;
  for (char c = 0; c < 0x7F; ++c) text += c;
  text += "\x7F ä € \xF0\x9F\x98\x80 \xEF\xBF\xBF \xF4\x8F\xBF\xBF";
  EXPECT_EQ(nlohmann::json::parse(Quoted(text)).get<std::string>(), text);
}

TEST(JsonTextTest, EndsOfLinesAreEscapedToo) {
  EXPECT_EQ(Quoted("a\xC2\x85\xE2\x80\xA8\xE2\x80\xA9\xC2\x86"),
            "\"a\\u0085\\u2028\\u2029\xC2\x86\"");
}

TEST(JsonTextTest, BytesThatAreNoCharacterAreReplaced) {
  for (const char* bytes : {"\x80", "\xC0", "\xC1", "\xF5", "\xFF"}) {
    EXPECT_EQ(Quoted(bytes), "\"\xEF\xBF\xBD\"");
  }
  // Cut off, too long for what they say, surrogates, beyond the last character.
  for (const char* bytes :
       {"\xE2\x82", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_EQ(CharacterBytes(bytes), 0);
    EXPECT_TRUE(nlohmann::json::accept(Quoted(bytes)));
  }
}

TEST(JsonTextTest, Numbers) {
  const auto number = [](float value) {
    std::string out;
    AppendJsonNumber(value, &out);
    return out;
  };
  EXPECT_EQ(number(-0.1F), "-0.1");
  EXPECT_EQ(number(0), "0");
  EXPECT_EQ(number(-std::numeric_limits<float>::infinity()), "-9999");
  EXPECT_EQ(nlohmann::json::parse(number(1e-30F)).get<float>(), 1e-30F);
}

}  // namespace
}  // namespace tvq::gateway
