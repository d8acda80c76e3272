#include "base/quoted.h"

#include <gtest/gtest.h>

#include <string>

namespace tvq {
namespace {

TEST(QuotedTest, ShowsCharactersAsTheyAre) {
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Quoted("a word, its 2nd"), "\"a word, its 2nd\"");
  EXPECT_EQ(Quoted("风弦 é e\u0301 \u00A0😀\uFFFD"), "\"风弦 é e\u0301 \u00A0😀\uFFFD\"");
}

TEST(QuotedTest, EscapesWhatWouldNotBeSeenOrEndTheQuotes) {
  EXPECT_EQ(Quoted("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(Quoted("\n\r\t"), R"("\n\r\t")");
  EXPECT_EQ(Quoted(std::string("\0\x1B[1m\x7F", 6)), R"("\u{0000}\u{001B}[1m\u{007F}")");
  EXPECT_EQ(Quoted("\u0085|\u00AD|\u200B|\u202E|\uFEFF|\uE000|\U000E0001|\U0010FFFF"),
            R"("\u{0085}|\u{00AD}|\u{200B}|\u{202E}|\u{FEFF}|\u{E000}|\u{E0001}|\u{10FFFF}")");
}

TEST(QuotedTest, EscapesBytesOfNoCharacter) {
  EXPECT_EQ(Quoted("a\xFFz"), R"("a\xFFz")");
  EXPECT_EQ(Quoted("\xE4\xB8"), R"("\xE4\xB8")");
  EXPECT_EQ(Quoted("\xE4\xB8\xE4\xB8\xAD"), "\"\\xE4\\xB8\xE4\xB8\xAD\"");
  EXPECT_EQ(Quoted("\xED\xA0\x80"), R"("\xED\xA0\x80")") << "a surrogate";
}

TEST(QuotedTest, ShortensLongTextBetweenCharacters) {
  const std::string longest(100, 'x');
  EXPECT_EQ(Quoted(longest), "\"" + longest + "\"");
  EXPECT_EQ(Quoted(longest + "y"), "\"" + longest + "...\"");
  EXPECT_EQ(Quoted(longest.substr(2) + "中"), "\"" + longest.substr(2) + "...\"");
  EXPECT_EQ(Quoted(longest.substr(3) + "中"), "\"" + longest.substr(3) + "中\"");
}

}  // namespace
}  // namespace tvq
