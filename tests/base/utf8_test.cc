#include "base/utf8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tvq {
namespace {

using ::testing::HasSubstr;

// A code point as UTF-8 by the definition, surrogates and all.
std::string Encoded(uint32_t point) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((point >> shift) & 0x3f)); };
  if (point < 0x80) return {static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xC0 | (point >> 6)), tail(0)};
  if (point < 0x10000) return {static_cast<char>(0xE0 | (point >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (point >> 18)), tail(12), tail(6), tail(0)};
}

void ExpectScan(std::string_view text, Utf8Prefix::Kind kind, size_t size) {
  const Utf8Prefix prefix = ScanUtf8(text);
  EXPECT_EQ(prefix.kind, kind) << ::testing::PrintToString(std::string(text));
  EXPECT_EQ(prefix.size, size) << ::testing::PrintToString(std::string(text));
}

TEST(Utf8Test, EveryCodePointButSurrogatesIsACharacterAndItsBeginningsAreIncomplete) {
  for (uint32_t point = 0; point < 0x110000; ++point) {
    const std::string text = Encoded(point);
    const Utf8Prefix prefix = ScanUtf8(text);
    const bool surrogate = point >= 0xD800 && point < 0xE000;
    ASSERT_EQ(prefix.kind, surrogate ? Utf8Prefix::kInvalid : Utf8Prefix::kCharacter) << point;
    if (surrogate) continue;
    ASSERT_EQ(prefix.size, text.size()) << point;
    for (size_t size = 1; size < text.size(); ++size) {
      const Utf8Prefix part = ScanUtf8(std::string_view(text).substr(0, size));
      ASSERT_EQ(part.kind, Utf8Prefix::kIncomplete) << point;
      ASSERT_EQ(part.size, size) << point;
    }
  }
  EXPECT_EQ(ScanUtf8(Encoded(0x110000)).kind, Utf8Prefix::kInvalid);
}

TEST(Utf8Test, InvalidPrefixIsTheMaximalSubpart) {
  // The examples of the Unicode Standard, table 3-8 to 3-10.
  ExpectScan("\xC0\xAF", Utf8Prefix::kInvalid, 1);          // overlong
  ExpectScan("\xE0\x80\xBF", Utf8Prefix::kInvalid, 1);      // overlong
  ExpectScan("\xF0\x81\x82\x41", Utf8Prefix::kInvalid, 1);  // overlong
  ExpectScan("\xED\xA0\x80", Utf8Prefix::kInvalid, 1);      // surrogate
  ExpectScan("\xF4\x91\x92\x93", Utf8Prefix::kInvalid, 1);  // above U+10FFFF
  ExpectScan("\xE1\x80\xE2", Utf8Prefix::kInvalid, 2);
  ExpectScan("\xF0\x91\x92\xF1", Utf8Prefix::kInvalid, 3);
  ExpectScan("\xFF", Utf8Prefix::kInvalid, 1);
  ExpectScan("\x80\x80", Utf8Prefix::kInvalid, 1);
}

TEST(Utf8Test, NothingIsTheBeginningOfACharacter) {
  ExpectScan("", Utf8Prefix::kIncomplete, 0);
  EXPECT_EQ(CodePoint(""), 0);
}

TEST(Utf8Test, ControlFormatAndPrivateCharactersAreNotSeen) {
  // Of Unicode 15's DerivedGeneralCategory.txt: Cc, Cf, Co.
  constexpr uint32_t kRanges[][2] = {
      {0x00, 0x1F},       {0x7F, 0x9F},         {0xAD, 0xAD},       {0x600, 0x605},
      {0x61C, 0x61C},     {0x6DD, 0x6DD},       {0x70F, 0x70F},     {0x890, 0x891},
      {0x8E2, 0x8E2},     {0x180E, 0x180E},     {0x200B, 0x200F},   {0x202A, 0x202E},
      {0x2060, 0x2064},   {0x2066, 0x206F},     {0xE000, 0xF8FF},   {0xFEFF, 0xFEFF},
      {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD},   {0x110CD, 0x110CD}, {0x13430, 0x1343F},
      {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},   {0xE0001, 0xE0001}, {0xE0020, 0xE007F},
      {0xF0000, 0xFFFFD}, {0x100000, 0x10FFFD},
  };
  for (const auto& [first, last] : kRanges) {
    for (uint32_t point = first; point <= last; ++point) ASSERT_FALSE(IsSeen(point)) << point;
  }
  for (const uint32_t neighbour :
       {0x20,    0x7E,    0xA0,    0xAC,    0xAE,    0x606,   0x61B,  0x61D,
        0x6DC,   0x6DE,   0x710,   0x88F,   0x898,   0x8E1,   0x8E3,  0x180D,
        0x180F,  0x2010,  0x202F,  0x2070,  0xF900,  0xFEFC,  0xFFFC, 0xFFFD,
        0x110BC, 0x110BE, 0x1342F, 0x13440, 0x1BC9F, 0x1D172, 0x1D17B}) {
    EXPECT_TRUE(IsSeen(neighbour)) << neighbour;
  }
}

TEST(Utf8Test, CheckNamesTheOffset) {
  EXPECT_TRUE(CheckUtf8("").ok());
  EXPECT_TRUE(CheckUtf8(std::string("h\xC3\xA9\0 \xF0\x9F\x98\x80", 9)).ok());
  const absl::Status status = CheckUtf8("ab\xC3(");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("byte offset 2 (byte 0xC3)"));
  EXPECT_THAT(std::string(CheckUtf8("abc\xF0\x9F").message()), HasSubstr("byte offset 3"));
}

}  // namespace
}  // namespace tvq
