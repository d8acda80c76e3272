#include "models/runtime/text/grammars.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/models/runtime/text/word_tokenizer.h"

namespace tvq {
namespace {

class GrammarsTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Grammar> Get(const std::string& regex) {
    auto grammar = grammars_.Get(GrammarLanguage::kRegex, regex);
    EXPECT_TRUE(grammar.ok()) << grammar.status();
    return *grammar;
  }

  WordTokenizer tokenizer_;
  Grammars grammars_{tokenizer_, {tokenizer_.end()}};
};

TEST_F(GrammarsTest, ASourceIsReadOnce) {
  const auto first = Get("a");
  EXPECT_EQ(Get("a"), first);
  EXPECT_NE(Get("b"), first);
  EXPECT_NE(*grammars_.Get(GrammarLanguage::kLark, "start: \"a\""), first);
}

TEST_F(GrammarsTest, TheSameTextInAnotherLanguageIsAnother) {
  const auto number = Get("1");
  EXPECT_FALSE(grammars_.Get(GrammarLanguage::kLark, "1").ok());
  EXPECT_EQ(Get("1"), number);
}

TEST_F(GrammarsTest, WhatWasUsedLastIsKept) {
  std::weak_ptr<const Grammar> used = Get("used");
  std::weak_ptr<const Grammar> unused = Get("unused");
  for (size_t i = 0; i < Grammars::kMostKept - 1; ++i) {
    Get("used");
    Get(absl::StrCat("another", i));
  }
  EXPECT_FALSE(used.expired());
  EXPECT_TRUE(unused.expired());
}

TEST_F(GrammarsTest, TheirMemoryIsBounded) {
  const int64_t bytes = Get("a")->bytes();
  EXPECT_GT(bytes, 0);
  Grammars few(tokenizer_, {tokenizer_.end()}, bytes * 5 / 2);
  std::vector<std::weak_ptr<const Grammar>> got;
  for (const char* regex : {"a", "b", "c"}) got.push_back(*few.Get(GrammarLanguage::kRegex, regex));
  EXPECT_TRUE(got[0].expired());
  EXPECT_FALSE(got[1].expired() || got[2].expired());
  Grammars none(tokenizer_, {tokenizer_.end()}, 0);
  EXPECT_TRUE(none.Get(GrammarLanguage::kRegex, "a").ok());
}

TEST_F(GrammarsTest, WhatCannotBeReadIsNotKept) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(grammars_.Get(GrammarLanguage::kRegex, "(").status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tvq
