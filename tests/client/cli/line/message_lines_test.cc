#include "client/cli/line/message_lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tvq::cli {
namespace {

// Adds lines; all but the last leave the message open.
MessageLines Of(const std::vector<std::string>& lines) {
  MessageLines message;
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(message.Add(lines[i]), i + 1 == lines.size()) << lines[i];
  }
  return message;
}

TEST(MessageLinesTest, ALineIsAMessage) {
  const MessageLines message = Of({"What is it?"});
  EXPECT_EQ(message.text(), "What is it?");
  EXPECT_FALSE(message.is_quoted());
  EXPECT_EQ(message.left_out(), 0);
  EXPECT_EQ(Of({""}).text(), "");
}

TEST(MessageLinesTest, ABackslashAtTheEndLetsItGoOn) {
  EXPECT_EQ(Of({
                   "a\\",
                   "b\\",
                   "",
               })
                .text(),
            "a\nb\n");
  EXPECT_EQ(Of({"\\", "b"}).text(), "\nb");
  EXPECT_EQ(Of({"C:\\\\"}).text(), "C:\\\\");  // two are two
}

TEST(MessageLinesTest, QuotesHoldLines) {
  const MessageLines message = Of({"\"\"\"", "/a\\", "", "b \"\"\" c", "\"\"\""});
  EXPECT_EQ(message.text(), "/a\\\n\nb \"\"\" c");
  EXPECT_TRUE(message.is_quoted());
  EXPECT_EQ(message.left_out(), 4);
  EXPECT_EQ(Of({"\"\"\"a", "b\"\"\""}).text(), "a\nb");
  EXPECT_EQ(Of({"\"\"\"a\"\"\""}).text(), "a");
  EXPECT_EQ(Of({"\"\"\"\"\"\""}).text(), "");
  EXPECT_EQ(Of({"\"\"\"a"
                "\"\"\""})
                .left_out(),
            3);
}

TEST(MessageLinesTest, WhatIsPastedIsOneMessage) {
  EXPECT_EQ(Of({"a\\\nb\n"}).text(), "a\\\nb\n");
  EXPECT_EQ(Of({"a\nb\\", "c"}).text(), "a\nb\nc");
  EXPECT_EQ(Of({"\"\"\"\na\nb", "c\n\"\"\""}).text(), "a\nb\nc");
}

TEST(MessageLinesTest, WhatWasTypedGivesTheSameAgain) {
  for (const std::vector<std::string>& lines :
       std::vector<std::vector<std::string>>{{"a"}, {"a\\", "b"}, {"\"\"\"", "/a\\", "\"\"\""}}) {
    const MessageLines message = Of(lines);
    const MessageLines again = Of({message.Typed()});
    EXPECT_EQ(again.text(), message.text());
    EXPECT_EQ(again.is_quoted(), message.is_quoted());
  }
}

TEST(MessageLinesTest, WhatIsClearedIsGone) {
  MessageLines message;
  EXPECT_FALSE(message.begun());
  EXPECT_FALSE(message.Add("\"\"\"a"));
  EXPECT_TRUE(message.begun());
  message.Clear();
  EXPECT_FALSE(message.begun());
  EXPECT_TRUE(message.Add("b"));
  EXPECT_EQ(message.text(), "b");
}

}  // namespace
}  // namespace tvq::cli
