#include "server/rpc/wire/answer_suffix.h"

#include <gtest/gtest.h>

namespace tvq {
namespace {

// Of an answer that ended with `stop`, and what was appended since.
AnswerEnd End(std::string_view answer, std::string_view stop, std::string_view appended = "") {
  AnswerEnd end = AnswerEnd::Of(std::string(answer) + std::string(stop), stop.size(), stop);
  end.Append(appended);
  return end;
}

// A template with a suffix that the next message goes on from.
std::string Unfed(const AnswerEnd& end) { return UnfedText(end, "\n", "User: Who?\nTutor:"); }
// One whose suffix is a mark of its own.
std::string Marked(const AnswerEnd& end) {
  return UnfedText(end, "<|end|>\n", "<|user|>Who?<|end|>\n<|tutor|>");
}

TEST(AnswerSuffixTest, ClosesWhatNoStopStringEnded) {
  EXPECT_EQ(Unfed(End(" Hi", "")), "\nUser: Who?\nTutor:");
  EXPECT_EQ(Unfed(End("", "")), "\nUser: Who?\nTutor:") << "an empty answer";
  EXPECT_EQ(Unfed(End(" Hi\n", "")), "\nUser: Who?\nTutor:") << "the answer's own line end";
  EXPECT_EQ(Unfed(End(" Hi\nUser:", "")), "\nUser: Who?\nTutor:") << "is text of the answer";
  EXPECT_EQ(UnfedText(End("a", ""), "", "b"), "b");
}

TEST(AnswerSuffixTest, AStopStringThatBeginsTheBoundaryLeavesTheRest) {
  EXPECT_EQ(Unfed(End(" Hi", "\n")), "User: Who?\nTutor:");
  EXPECT_EQ(Unfed(End(" Hi", "\nUser:")), " Who?\nTutor:");
  EXPECT_EQ(Unfed(End(" Hi", "\nUser: ")), "Who?\nTutor:") << "its last token had more";
  EXPECT_EQ(Marked(End("Hi", "<|end|>")), "\n<|user|>Who?<|end|>\n<|tutor|>");
  EXPECT_EQ(UnfedText(End("Hi", "\nUser:"), "", "\nUser: Who?"), " Who?") << "an empty suffix";
}

TEST(AnswerSuffixTest, AStopStringWithinTheBoundaryGoesWithWhatTheAnswerHasOfIt) {
  EXPECT_EQ(Unfed(End(" Hi\n", "User:")), " Who?\nTutor:");
  EXPECT_EQ(Marked(End("Hi<|end|>\n", "<|user|>")), "Who?<|end|>\n<|tutor|>");
  EXPECT_EQ(Marked(End("Hi<|end|>", "\n")), "<|user|>Who?<|end|>\n<|tutor|>");
  EXPECT_EQ(Unfed(End(" Hi ", "User:")), "\nUser: Who?\nTutor:") << "without the suffix before it";
}

TEST(AnswerSuffixTest, OtherStopStringsArePartOfTheAnswer) {
  EXPECT_EQ(Unfed(End(" Hi", ".")), "\nUser: Who?\nTutor:");
  EXPECT_EQ(Unfed(End(" Hi", "END\n")), "User: Who?\nTutor:") << "it ends with the suffix";
  EXPECT_EQ(Unfed(End(" Hi", "\nUser: Wh")), "o?\nTutor:") << "the next message's own beginning";
  EXPECT_EQ(Unfed(End(" Hi", "\nUser: I")), "\nUser: Who?\nTutor:") << "another message's";
}

TEST(AnswerSuffixTest, WhatWasAppendedMayCloseTheAnswer) {
  EXPECT_EQ(Unfed(End(" Hi", "", "\n")), "User: Who?\nTutor:");
  EXPECT_EQ(Unfed(End(" Hi", "", " and more")), "\nUser: Who?\nTutor:");
  EXPECT_EQ(Unfed(End(" Hi", "\nUser:", " I\nTutor: You\n")), "User: Who?\nTutor:");
  EXPECT_EQ(Unfed(End(" Hi", "", std::string(1000, 'x') + "\n")), "User: Who?\nTutor:");
  EXPECT_EQ(Unfed(End(" Hi", "", std::string(1000, 'x'))), "\nUser: Who?\nTutor:");
  EXPECT_EQ(Marked(End("Hi", "", " a <")), "<|end|>\n<|user|>Who?<|end|>\n<|tutor|>")
      << "half a suffix may be text";
}

TEST(AnswerSuffixTest, WhatWasAppendedIsNoPartOfTheText) {
  EXPECT_EQ(Unfed(End(" Hi", "", "\nUser: Who?\n")), "User: Who?\nTutor:") << "it says it twice";
  EXPECT_EQ(Unfed(End(" Hi", "", "\nUser:")), "\nUser: Who?\nTutor:");
  EXPECT_EQ(Unfed(End(" Hi", "\n", "User:")), "\nUser: Who?\nTutor:");
  EXPECT_EQ(UnfedText(End("a", "", "\n"), "", "\nUser: Who?"), "\nUser: Who?");
  EXPECT_EQ(UnfedText(End("a", "\n", "\n"), "", "\n\nUser: Who?"), "\n\nUser: Who?");
  EXPECT_EQ(Unfed(End(" Hi", "\n", "")), "User: Who?\nTutor:") << "nothing was";
  EXPECT_EQ(Marked(End("Hi", "<|end|>", "\n")), "<|user|>Who?<|end|>\n<|tutor|>")
      << "the rest of the suffix";
}

TEST(AnswerSuffixTest, TheLongestSuffixIsRecognised) {
  const std::string longest(kMaxAnswerSuffix, 'x');
  EXPECT_EQ(UnfedText(End("Hi", longest), longest, "Who?"), "Who?");
  EXPECT_EQ(UnfedText(End("Hi", "", "y" + longest), longest, "Who?"), "Who?");
}

TEST(AnswerSuffixTest, NeverCutsACharacter) {
  const std::string half = std::string("é").substr(0, 1);
  EXPECT_EQ(UnfedText(End("", "", half), "é", "è"), "éè");
  EXPECT_EQ(UnfedText(End("", "", "é" + half), "é", "è"), "éè");
}

TEST(AnswerEndTest, KeepsTheLastBytes) {
  AnswerEnd end;
  end.Append("answer");
  EXPECT_EQ(end, (AnswerEnd{"answer", 6, true}));
  end = AnswerEnd::Of("answer", 1, "");
  EXPECT_EQ(end, (AnswerEnd{"answer", 0}));
  end.Append("");
  EXPECT_EQ(end, (AnswerEnd{"answer", 0})) << "nothing was appended";
  end.Append(std::string(AnswerEnd::kMaxTail - 2, 'x'));
  EXPECT_EQ(end.tail, "er" + std::string(AnswerEnd::kMaxTail - 2, 'x'));
  EXPECT_EQ(end.after, AnswerEnd::kMaxTail - 2);
  end.Append("more");
  EXPECT_EQ(end.tail, std::string(AnswerEnd::kMaxTail - 4, 'x') + "more");
  EXPECT_EQ(end.after, AnswerEnd::kMaxTail);
}

TEST(AnswerEndTest, ItsBytesAreThoseOfTheTokens) {
  EXPECT_EQ(AnswerEnd::Of("Hi\n", 1, "\n"), (AnswerEnd{"Hi\n", 1}));
  EXPECT_EQ(AnswerEnd::Of("Hi\n\xE2", 2, "\n"), (AnswerEnd{"Hi\n\xE2", 2})) << "half a character";
  EXPECT_EQ(AnswerEnd::Of("a\nb\nc\n", 4, "\n"), (AnswerEnd{"a\nb\nc\n", 3})) << "its first";
  EXPECT_EQ(AnswerEnd::Of("Hi##x", 2, "##"), (AnswerEnd{"Hi##x", 3})) << "begins a token before";
  EXPECT_EQ(AnswerEnd::Of("a\xE2", 1, "\xEF\xBF\xBD"), (AnswerEnd{"a\xE2", 2})) << "replaced";
  EXPECT_EQ(AnswerEnd::Of("", 0, ""), AnswerEnd());
  const std::string stop(100, 'x');
  EXPECT_EQ(AnswerEnd::Of("a" + stop, 1, stop), (AnswerEnd{stop.substr(36), 64}));
}

}  // namespace
}  // namespace tvq
