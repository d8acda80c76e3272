#include "models/runtime/text/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/ops/sample.h"
#include "tests/models/runtime/text/word_tokenizer.h"

namespace tvq {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class GrammarTest : public ::testing::Test {
 protected:
  GrammarTest() : vocabulary_(*GrammarVocabulary::Make(tokenizer_, std::vector{end()})) {}

  int32_t end() const { return tokenizer_.end(); }
  int32_t Id(std::string_view text) const { return tokenizer_.Id(text); }

  std::shared_ptr<const Grammar> Read(GrammarLanguage language, const std::string& source) {
    auto grammar = vocabulary_.Read(language, source);
    EXPECT_TRUE(grammar.ok()) << grammar.status();
    return *grammar;
  }

  // Ids that may be next.
  std::vector<int32_t> Allowed(GrammarMatcher& matcher) const {
    std::vector<uint32_t> mask(static_cast<size_t>(MaskWords(tokenizer_.vocab_size())), ~0U);
    EXPECT_TRUE(matcher.Mask(mask).ok());
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < std::ssize(mask) * 32; ++id) {
      if (MaskHas(mask, id)) ids.push_back(id);
    }
    return ids;
  }

  void Take(GrammarMatcher& matcher, int32_t id) const {
    ASSERT_THAT(Allowed(matcher), Contains(id)) << tokenizer_.TokenBytes(id);
    ASSERT_TRUE(matcher.Accept(id).ok());
  }
  void TakeBytes(GrammarMatcher& matcher, std::string_view text) const {
    for (const char byte : text) Take(matcher, Id({&byte, 1}));
  }

  WordTokenizer tokenizer_{{"ab", "abc", R"(":)", "true"}};
  GrammarVocabulary vocabulary_;
};

TEST_F(GrammarTest, ASchemaAllowsWhatIsValidAndThenEnds) {
  const auto grammar = Read(GrammarLanguage::kJsonSchema, R"({
    "type": "object", "required": ["a"], "additionalProperties": false,
    "properties": {"a": {"type": "boolean"}, "b": {"type": "integer"}}})");
  GrammarMatcher matcher = *grammar->Begin();
  TakeBytes(matcher, R"({"a)");
  EXPECT_THAT(Allowed(matcher), ElementsAre(Id("\""), Id(R"(":)")));
  Take(matcher, Id(R"(":)"));
  Take(matcher, Id("true"));
  EXPECT_THAT(Allowed(matcher), Not(Contains(end())));
  Take(matcher, Id("}"));
  EXPECT_THAT(Allowed(matcher), ElementsAre(end()));
}

TEST_F(GrammarTest, WhiteSpaceInJsonHasAnEnd) {
  const auto grammar = Read(GrammarLanguage::kJsonSchema, R"({"type": "array"})");
  GrammarMatcher spaced = *grammar->Begin();
  TakeBytes(spaced, "[ ");
  EXPECT_THAT(Allowed(spaced), Not(Contains(Id(" "))));
  GrammarMatcher indented = *grammar->Begin();
  TakeBytes(indented, "[\n" + std::string(40, ' '));
  EXPECT_THAT(Allowed(indented), Not(Contains(Id(" "))));
  TakeBytes(indented, "1, 2\n]");
  EXPECT_THAT(Allowed(indented), ElementsAre(end()));
}

TEST_F(GrammarTest, TokensOfSeveralBytesMustFitAsAWhole) {
  const auto grammar = Read(GrammarLanguage::kRegex, "a(b|c)?");
  GrammarMatcher matcher = *grammar->Begin();
  EXPECT_THAT(Allowed(matcher), ElementsAre(Id("a"), Id("ab")));
  Take(matcher, Id("a"));
  EXPECT_THAT(Allowed(matcher), ElementsAre(Id("b"), Id("c"), end()));
  Take(matcher, Id("b"));
  EXPECT_THAT(Allowed(matcher), ElementsAre(end()));
}

TEST_F(GrammarTest, LarkHasRules) {
  const auto grammar = Read(GrammarLanguage::kLark, "start: \"(\" start \")\" | \"abc\"");
  GrammarMatcher matcher = *grammar->Begin();
  TakeBytes(matcher, "((");
  Take(matcher, Id("abc"));
  TakeBytes(matcher, "))");
  EXPECT_THAT(Allowed(matcher), ElementsAre(end()));
}

TEST_F(GrammarTest, AVocabularyMayFillItsWords) {
  const WordTokenizer full(std::vector<std::string>(31, "ab"));
  ASSERT_EQ(full.vocab_size() % 32, 0);
  const auto vocabulary = GrammarVocabulary::Make(full, std::vector{full.end()});
  const auto grammar = *vocabulary->Read(GrammarLanguage::kRegex, "(ab)*");
  std::vector<uint32_t> mask(static_cast<size_t>(grammar->mask_words()));
  ASSERT_EQ(std::ssize(mask), full.vocab_size() / 32);
  GrammarMatcher matcher = *grammar->Begin();
  ASSERT_TRUE(matcher.Mask(mask).ok());
  EXPECT_EQ(mask.back(), ~0U) << "each of the words, and the end";
}

TEST_F(GrammarTest, OutputsDoNotKnowOfEachOther) {
  auto grammar = Read(GrammarLanguage::kRegex, "ax|by");
  GrammarMatcher first = *grammar->Begin();
  GrammarMatcher second = *grammar->Begin();
  grammar.reset();
  Take(first, Id("a"));
  Take(second, Id("b"));
  EXPECT_THAT(Allowed(first), ElementsAre(Id("x")));
  EXPECT_THAT(Allowed(second), ElementsAre(Id("y")));
}

TEST_F(GrammarTest, WhatCannotBeReadSaysWhy) {
  const struct {
    GrammarLanguage language;
    const char* source;
    const char* why;
  } cases[] = {
      {GrammarLanguage::kJsonSchema, "{", "is not JSON"},
      {GrammarLanguage::kJsonSchema, R"({"type": "nothing"})", "nothing"},
      {GrammarLanguage::kRegex, "(a", "regex"},
      {GrammarLanguage::kLark, "start: undefined_rule", "undefined_rule"},
  };
  for (const auto& [language, source, why] : cases) {
    const auto grammar = vocabulary_.Read(language, source);
    EXPECT_EQ(grammar.status().code(), absl::StatusCode::kInvalidArgument) << source;
    EXPECT_THAT(std::string(grammar.status().message()), HasSubstr(why));
  }
}

TEST_F(GrammarTest, AModelThatCannotWriteItIsToldSo) {
  class Digits : public WordTokenizer {
   public:
    std::string_view TokenBytes(int32_t id) const override {
      return id >= '0' && id <= '9' ? WordTokenizer::TokenBytes(id) : "";
    }
  };
  const Digits digits;
  const auto vocabulary = GrammarVocabulary::Make(digits, std::vector{digits.end()});
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  const auto refused = vocabulary->Read(GrammarLanguage::kRegex, "a+");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("no token of the model"));
  GrammarMatcher matcher = *(*vocabulary->Read(GrammarLanguage::kRegex, "1a"))->Begin();
  std::vector<uint32_t> mask(static_cast<size_t>(MaskWords(digits.vocab_size())));
  ASSERT_TRUE(matcher.Mask(mask).ok());
  ASSERT_TRUE(matcher.Accept('1').ok());
  EXPECT_THAT(std::string(matcher.Mask(mask).message()), HasSubstr("no token of the model"));
}

// As deep and as long as a source may be: refused or read, and the process lives.
TEST_F(GrammarTest, HostileSourcesEndNothing) {
  std::string rules = "start: r0\n", terminals = "start: T0\n",
              references = R"({"$ref": "#/$defs/d0", "$defs": {)";
  constexpr int kMany = 9000;
  for (int i = 0; i < kMany; ++i) {
    absl::StrAppend(&rules, "r", i, ": r", i + 1, "\n");
    absl::StrAppend(&terminals, "T", i, ": T", i + 1, "\n");
    absl::StrAppend(&references, "\"d", i, "\": {\"$ref\": \"#/$defs/d", i + 1, "\"}, ");
  }
  absl::StrAppend(&rules, "r", kMany, ": \"a\"");
  absl::StrAppend(&terminals, "T", kMany, ": \"a\"");
  absl::StrAppend(&references, "\"d", kMany, "\": {\"type\": \"null\"}}}");
  std::string options = R"({"oneOf": [{"type": "null"})", symbols = "start: ";
  for (int i = 0; i < 2000; ++i) {
    absl::StrAppend(&options, R"(, {"type": "object", "required": ["a", "b", "c)", i, "\"]}");
  }
  for (int i = 0; i < 80'000; ++i) absl::StrAppend(&symbols, "[a]");
  const struct {
    GrammarLanguage language;
    std::string source;
  } cases[] = {
      {GrammarLanguage::kLark, rules},
      {GrammarLanguage::kLark, terminals},
      {GrammarLanguage::kJsonSchema, references},
      {GrammarLanguage::kJsonSchema, options + "]}"},
      {GrammarLanguage::kLark, symbols + "\na: \"a\""},
      {GrammarLanguage::kLark, "start: " + std::string(200'000, '(')},
      {GrammarLanguage::kLark, "start: start start | \"a\""},
      {GrammarLanguage::kRegex, "(.*a.{200}){200}"},
      {GrammarLanguage::kRegex, "((((a{1,100}){1,100}){1,100}){1,100}){1,100}"},
  };
  for (const auto& [language, source] : cases) {
    const auto grammar = vocabulary_.Read(language, source);
    const std::string begin = source.substr(0, 40);
    if (!grammar.ok()) {
      EXPECT_LT(grammar.status().message().size(), 1000u) << begin;
      EXPECT_THAT(std::string(grammar.status().message()), Not(HasSubstr("panic"))) << begin;
      continue;
    }
    GrammarMatcher matcher = *(*grammar)->Begin();
    for (int i = 0; i < 20; ++i) {
      std::vector<uint32_t> mask(static_cast<size_t>((*grammar)->mask_words()));
      if (!matcher.Mask(mask).ok() || !MaskHas(mask, Id("a"))) break;
      if (!matcher.Accept(Id("a")).ok()) break;
    }
  }
}

TEST_F(GrammarTest, ATokenThatTheMaskForbidsIsAnError) {
  GrammarMatcher matcher = *Read(GrammarLanguage::kRegex, "a")->Begin();
  EXPECT_FALSE(matcher.Accept(Id("b")).ok());
}

TEST_F(GrammarTest, AnOutputMustHaveAnEnd) {
  EXPECT_EQ(GrammarVocabulary::Make(tokenizer_, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tvq
