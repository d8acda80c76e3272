#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "models/runtime/tokenizer/python_literal.h"
#include "models/runtime/tokenizer/types.h"
#include "tests/models/runtime/tokenizer/golden_texts.h"

namespace tvq {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Ids = std::vector<int32_t>;

absl::StatusOr<std::unique_ptr<Tokenizer>> OfList(const std::string& list, int64_t vocab_size) {
  CommonConfig config;
  config.vocab_size = vocab_size;
  return MakeRwkvTokenizer(list, "vocab.txt", config);
}

std::string World() {
  gzFile file = gzopen((fixtures::GoldenFolder("rwkv7_pieces") + "/world.txt.gz").c_str(), "rb");
  std::string text(4 << 20, '\0');
  text.resize(static_cast<size_t>(gzread(file, text.data(), static_cast<unsigned>(text.size()))));
  gzclose(file);
  return text;
}

void ExpectTexts(const Tokenizer& tokenizer, const json& rows) {
  for (const json& row : rows) {
    const auto text = row["text"].get<std::string>();
    const absl::StatusOr<Ids> ids = tokenizer.Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, row["ids"].get<Ids>()) << text;
    EXPECT_EQ(*tokenizer.Decode(*ids), text);
  }
}

TEST(RwkvTokenizerTest, TextsHaveTheirIds) {
  CommonConfig config;
  config.vocab_size = 1024;
  config.tokenizer = {.type = "rwkv", .file = "rwkv_vocab_v20230424.txt"};
  const auto tokenizer = LoadTokenizer(fixtures::GoldenFolder("rwkv7_pieces"), config);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->type(), "rwkv");
  EXPECT_TRUE((*tokenizer)->IsSpecial(0));
  ExpectTexts(**tokenizer, fixtures::GoldenJson("rwkv7_pieces", "tokenize.json"));
}

TEST(RwkvTokenizerTest, TextsHaveTheirIdsByTheWholeVocabulary) {
  const auto tokenizer = OfList(World(), 65536);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ExpectTexts(**tokenizer, fixtures::GoldenJson("rwkv7_pieces", "tokenize_world.json"));
}

TEST(RwkvTokenizerTest, TheLongestTokenIsTaken) {
  const auto tokenizer =
      OfList("1 'a' 1\n2 'ab' 2\n3 'abcd' 4\n4 \"c\" 1\n5 b'\\xc3' 1\n6 b'\\xa9' 1\n", 7);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(*(*tokenizer)->Encode("abcabcd\xC3\xA9"), ElementsAre(2, 4, 3, 5, 6));
  EXPECT_EQ(*(*tokenizer)->Decode(Ids{5, 1, 0, 5, 6}), "\uFFFDa\xC3\xA9");
  EXPECT_THAT((*tokenizer)->Encode("abz").status().message(),
              HasSubstr("byte 0x7A at byte offset 2"));
  EXPECT_FALSE((*tokenizer)->Encode("a\xFF").ok());
}

TEST(RwkvTokenizerTest, BadListsAreRefused) {
  const std::pair<const char*, const char*> lists[] = {
      {"", "vocab.txt has no tokens"},
      {"1 'a' 1\n\n", "vocab.txt: line 2 is not an id, a literal and a length"},
      {"1 a 1\n", "line 1 has no literal"},
      {"x 'a' 1\n", "line 1 has an id that is no number from 0 to 9"},
      {"10 'a' 1\n", "line 1 has an id that is no number from 0 to 9"},
      {"-1 'a' 1\n", "line 1 has an id that is no number from 0 to 9"},
      {"1 'a' 2\n", "line 1 has another length than its literal, 1 bytes"},
      {"1 '' 0\n", "an empty literal"},
      {"1 'a' 1\n1 'b' 1\n", "line 2 has an id of another line"},
      {"1 'a' 1\n2 b'a' 1\n", "the ids 1 and 2 have the same literal"},
      {"1 __import__('os').getpid() 1\n", "line 1 has no literal of Python's"}};
  for (const auto& [list, message] : lists) {
    EXPECT_THAT(OfList(list, 10).status().message(), HasSubstr(message)) << list;
  }
}

TEST(PythonLiteralTest, IsReadAsPythonDoes) {
  EXPECT_EQ(*ParsePythonLiteral("'a\\n\\t\\r\\\\\\''"), "a\n\t\r\\'");
  EXPECT_EQ(*ParsePythonLiteral("\"it's\""), "it's");
  EXPECT_EQ(*ParsePythonLiteral("'\\xe9\\u20ac\\U0001f600'"), "é€😀");
  EXPECT_EQ(*ParsePythonLiteral("b'\\xe9\"'"), "\xE9\"");
  EXPECT_EQ(*ParsePythonLiteral("''"), "");
  for (const char* bad :
       {"", "a", "'", "'a\"", "'a'b'", "'\\x4'", "'\\xg0'", "'\\ud800'", "'\\q'", "'\\", "'\\'",
        "b'\xC3\xA9'", "'\xFF'", "'\\U00110000'", "bb'a'", "b'\\u0041'", "'\\x+1'"}) {
    EXPECT_FALSE(ParsePythonLiteral(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace tvq
