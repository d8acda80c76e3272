#include "client/cli/line/thinking.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tvq::cli {
namespace {

std::string Shown(const std::vector<std::string>& pieces) {
  DimmedThinking thinking;
  std::string shown;
  for (const std::string& piece : pieces) shown += thinking.Show(piece);
  return shown + thinking.End();
}

TEST(DimmedThinkingTest, DimsTheThinkingHoweverItComes) {
  const std::string text = "\n<think>Well.</think>\nYes.";
  const std::string dimmed = "\033[2m\n<think>Well.</think>\033[22m\nYes.";
  EXPECT_EQ(Shown({text}), dimmed);
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j = i; j <= text.size(); ++j) {
      EXPECT_EQ(Shown({text.substr(0, i), text.substr(i, j - i), text.substr(j)}), dimmed);
    }
  }
}

TEST(DimmedThinkingTest, AnswersWithoutAnyAreAsTheyAre) {
  for (const std::string text : {"Yes.", "", "<", "<thin", "  <thinner", "Say <think>.</think>"}) {
    EXPECT_EQ(Shown({text}), text);
    std::vector<std::string> letters;
    for (const char letter : text) letters.emplace_back(1, letter);
    EXPECT_EQ(Shown(letters), text);
  }
}

TEST(DimmedThinkingTest, WhatBreaksOffDimsNothingBehindIt) {
  EXPECT_EQ(Shown({"<think>We"}), "\033[2m<think>We\033[22m");
}

}  // namespace
}  // namespace tvq::cli
