#include "models/runtime/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "tests/models/runtime/temp_dir.h"

namespace tvq {
namespace {

using fixtures::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Loaded = absl::StatusOr<std::unique_ptr<Tokenizer>>;
using Ids = std::vector<int32_t>;

constexpr char kMixedText[] =
    "To be, or not to be\n\tna\xC3\xAFve \xE2\x82\xAC 5 \xE4\xB8\xAD\xE6\x96\x87 "
    "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB e\xCC\x81";

// Has one token, the unknown one, which begins where it is told to.
class UnknownFrom : public Tokenizer {
 public:
  explicit UnknownFrom(size_t begin) : begin_(begin) {}
  absl::StatusOr<Ids> Encode(std::string_view /*text*/) const override { return Ids{0}; }
  size_t TokenBegin(std::string_view /*text*/, size_t /*index*/) const override { return begin_; }
  std::optional<int32_t> unknown_token() const override { return 0; }
  std::string_view TokenBytes(int32_t /*id*/) const override { return ""; }
  bool IsSpecial(int32_t /*id*/) const override { return true; }
  bool StripsLeadingSpace() const override { return false; }
  int32_t vocab_size() const override { return 1; }
  std::string_view type() const override { return "unknown"; }

 private:
  const size_t begin_;
};

Loaded LoadBytes(int64_t vocab_size) {
  CommonConfig config;
  config.vocab_size = vocab_size;
  config.tokenizer.type = "bytes";
  return LoadTokenizer("/nonexistent", config);
}

Loaded LoadPixels(int64_t vocab_size, int64_t levels) {
  CommonConfig config;
  config.vocab_size = vocab_size;
  config.tokenizer = {.type = "pixels", .height = 2, .width = 2, .channels = 1, .levels = levels};
  return LoadTokenizer("/nonexistent", config);
}

CommonConfig CharactersConfig(int64_t vocab_size) {
  CommonConfig config;
  config.vocab_size = vocab_size;
  config.tokenizer.type = "characters";
  config.tokenizer.file = "characters.txt";
  return config;
}

Loaded LoadCharacters(std::string_view list, const CommonConfig& config) {
  const TempDir dir;
  dir.Write("characters.txt", list);
  return LoadTokenizer(dir.path(), config);
}

std::string Message(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

void ExpectTextBack(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.Encode(text);
  ASSERT_TRUE(ids.ok()) << ids.status();
  const auto decoded = tokenizer.Decode(*ids);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, text);
}

TEST(TokenizerTest, SaysThatAnUnknownTokenStandsBehindTheText) {
  EXPECT_EQ(Message(UnknownFrom(1).CheckKnown("xy", Ids{0})),
            "the character \"y\" (U+0079) at byte offset 1 is not in the model's vocabulary");
  for (const std::string_view text : {"xy", ""}) {
    EXPECT_EQ(Message(UnknownFrom(text.size()).CheckKnown(text, Ids{0})),
              "what the tokenizer adds behind the text is not in the model's vocabulary");
  }
}

TEST(TokenizerTest, UnknownTypeIsRefused) {
  CommonConfig config;
  config.tokenizer.type = "words";
  EXPECT_THAT(Message(LoadTokenizer("/nonexistent", config).status()), HasSubstr("\"words\""));
}

TEST(BytesTokenizerTest, IdsAreBytesPlusThree) {
  const Loaded tokenizer = LoadBytes(259);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->type(), "bytes");
  EXPECT_EQ((*tokenizer)->vocab_size(), 259);
  EXPECT_THAT(*(*tokenizer)->Encode("A\xC3\xA9"), ElementsAre(68, 198, 172));
  EXPECT_THAT(*(*tokenizer)->Encode(""), ElementsAre());
  EXPECT_THAT(*(*tokenizer)->Encode(std::string_view("\0", 1)), ElementsAre(3));
  ExpectTextBack(**tokenizer, kMixedText);
  ExpectTextBack(**tokenizer, " leading and trailing ");
}

TEST(BytesTokenizerTest, SpecialsHaveNoText) {
  const Loaded tokenizer = LoadBytes(300);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  for (const int32_t id : {0, 1, 2, 259, 299}) {
    EXPECT_TRUE((*tokenizer)->IsSpecial(id)) << id;
    EXPECT_EQ((*tokenizer)->TokenBytes(id), "") << id;
  }
  EXPECT_FALSE((*tokenizer)->IsSpecial(3));
  EXPECT_EQ((*tokenizer)->TokenBytes(258), "\xFF");
  EXPECT_EQ(*(*tokenizer)->Decode(Ids{0, 68, 1, 69, 299}), "AB");
}

TEST(BytesTokenizerTest, DecodeGivesValidUtf8) {
  const Loaded tokenizer = LoadBytes(259);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(*(*tokenizer)->Decode(Ids{0xC3 + 3, 'x' + 3, 0x80 + 3, 0xF0 + 3, 0x9F + 3}),
            "\xEF\xBF\xBDx\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(BytesTokenizerTest, RefusesBadTextIdsAndVocabularies) {
  const Loaded tokenizer = LoadBytes(259);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Message((*tokenizer)->Encode("ab\xFF").status()), HasSubstr("byte offset 2"));
  EXPECT_THAT(Message((*tokenizer)->Decode(Ids{5, 259}).status()),
              HasSubstr("token id 259 at index 1 is outside the vocabulary; ids are 0 to 258"));
  EXPECT_THAT(Message((*tokenizer)->Decode(Ids{-1}).status()), HasSubstr("token id -1 at index 0"));
  EXPECT_THAT(Message(LoadBytes(258).status()), HasSubstr("\"vocab_size\" is 258"));
}

TEST(CharactersTokenizerTest, IdsFollowTheLines) {
  CommonConfig config = CharactersConfig(9);
  const Loaded tokenizer = LoadCharacters("a\n\xE4\xB8\xAD\n\\n\n \n\\\n", config);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->type(), "characters");
  EXPECT_EQ((*tokenizer)->vocab_size(), 9);
  EXPECT_THAT(*(*tokenizer)
                   ->Encode("\xE4\xB8\xAD"
                            "a\n \\"),
              ElementsAre(4, 3, 5, 6, 7));
  ExpectTextBack(**tokenizer, " a\\\n\xE4\xB8\xAD ");
  EXPECT_TRUE((*tokenizer)->IsSpecial(0));
  EXPECT_TRUE((*tokenizer)->IsSpecial(8));
  EXPECT_EQ((*tokenizer)->TokenBytes(8), "");
  EXPECT_FALSE((*tokenizer)->IsSpecial(5));
  config.tokenizer.first_id = 0;
  const Loaded from_zero = LoadCharacters("a\nb", config);  // the last line end is optional
  ASSERT_TRUE(from_zero.ok()) << from_zero.status();
  EXPECT_THAT(*(*from_zero)->Encode("ba"), ElementsAre(1, 0));
}

TEST(CharactersTokenizerTest, UnlistedCharacterIsUnknownOrAnError) {
  CommonConfig config = CharactersConfig(9);
  const Loaded strict = LoadCharacters("a\nb\n", config);
  ASSERT_TRUE(strict.ok()) << strict.status();
  EXPECT_THAT(Message((*strict)->Encode("ab\xC3\xA9").status()), HasSubstr("byte offset 2"));
  EXPECT_THAT(Message((*strict)->Encode("a\xC3").status()), HasSubstr("byte offset 1"));
  config.unk_token_id = 2;
  const Loaded lenient = LoadCharacters("a\nb\n", config);
  ASSERT_TRUE(lenient.ok()) << lenient.status();
  EXPECT_THAT(*(*lenient)->Encode("a\xC3\xA9"
                                  "b"),
              ElementsAre(3, 2, 4));
  EXPECT_EQ(*(*lenient)->Decode(Ids{3, 2, 4}), "ab");
}

TEST(CharactersTokenizerTest, NamesACharacterThatBecameTheUnknownToken) {
  CommonConfig config = CharactersConfig(9);
  config.unk_token_id = 2;
  const Loaded tokenizer = LoadCharacters("a\n\xE4\xB8\xAD\n", config);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->unknown_token(), 2);
  const std::string known = "a\xE4\xB8\xAD", unknown = "\xC3\xA9";
  const auto check = [&](const std::string& text) {
    return (*tokenizer)->CheckKnown(text, *(*tokenizer)->Encode(text));
  };
  EXPECT_TRUE(check("").ok());
  EXPECT_TRUE(check(known + known).ok());
  for (const std::string& before : {std::string(), std::string("a"), known, known + known + "a"}) {
    for (const std::string& behind : {std::string(), std::string("a"), known}) {
      EXPECT_EQ(Message(check(absl::StrCat(before, unknown, behind))),
                absl::StrCat("the character \"", unknown, "\" (U+00E9) at byte offset ",
                             before.size(), " is not in the model's vocabulary"));
    }
  }
}

TEST(CharactersTokenizerTest, ShowsCharactersByTheirNumbers) {
  const Loaded tokenizer = LoadCharacters("a\n", CharactersConfig(9));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto message = [&](const std::string& text) {
    return Message((*tokenizer)->Encode(text).status());
  };
  EXPECT_THAT(message("b"), HasSubstr("the character \"b\" (U+0062) at"));
  EXPECT_THAT(message("\t"), HasSubstr("the character U+0009 at"));
  EXPECT_THAT(message("\xC2\x85"), HasSubstr("the character U+0085 at"));
  EXPECT_THAT(message("\xCC\x81"), HasSubstr("the character U+0301 at"));      // an accent
  EXPECT_THAT(message("\xE2\x80\xAE"), HasSubstr("the character U+202E at"));  // turns a line
  EXPECT_THAT(message("\xE4\xB8\xAD"), HasSubstr("the character \"\xE4\xB8\xAD\" (U+4E2D) at"));
  EXPECT_THAT(message("\xF0\x9F\x91\xA9"), HasSubstr("\" (U+1F469) at"));
}

TEST(CharactersTokenizerTest, UnknownTokenIsNoCharacter) {
  CommonConfig config = CharactersConfig(9);
  config.unk_token_id = 4;
  EXPECT_THAT(Message(LoadCharacters("a\nb\n", config).status()),
              AllOf(HasSubstr("\"unk_token_id\" is 4"), HasSubstr("line 2")));
  config.unk_token_id = 5;
  EXPECT_TRUE(LoadCharacters("a\nb\n", config).ok());
  config.eos_token_id = 5;
  EXPECT_THAT(Message(LoadCharacters("a\nb\n", config).status()),
              HasSubstr("\"unk_token_id\" is 5, which another special token has"));
}

TEST(CharactersTokenizerTest, ListErrorsNameFileAndLine) {
  const CommonConfig config = CharactersConfig(6);
  EXPECT_THAT(Message(LoadCharacters("", config).status()), HasSubstr("characters.txt is empty"));
  EXPECT_THAT(Message(LoadCharacters("a\n\nb\n", config).status()), HasSubstr("line 2 is empty"));
  EXPECT_THAT(Message(LoadCharacters("a\nbc\n", config).status()),
              HasSubstr("line 2 holds \"bc\""));
  EXPECT_THAT(Message(LoadCharacters("a\r\nb\r\n", config).status()), HasSubstr("line 1 holds"));
  EXPECT_THAT(Message(LoadCharacters("a\n\xC3\n", config).status()), HasSubstr("line 2 is not"));
  EXPECT_THAT(Message(LoadCharacters("a\nb\na\n", config).status()),
              HasSubstr("line 3 repeats the character of line 1"));
  EXPECT_THAT(Message(LoadCharacters("a\nb\nc\nd\n", config).status()),
              HasSubstr("line 4 has the id 6, but config.json's vocab_size is 6"));
  EXPECT_EQ(LoadTokenizer("/nonexistent", config).status().code(), absl::StatusCode::kNotFound);
}

TEST(PixelsTokenizerTest, TextIsLevelsSeparatedBySpaces) {
  const Loaded tokenizer = LoadPixels(16, 16);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->type(), "pixels");
  EXPECT_THAT(*(*tokenizer)->Encode("0 15 3"), ElementsAre(0, 15, 3));
  EXPECT_THAT(*(*tokenizer)->Encode(" 0\n15\t 3\r\n"), ElementsAre(0, 15, 3));
  EXPECT_THAT(*(*tokenizer)->Encode(""), ElementsAre());
  EXPECT_EQ(*(*tokenizer)->Decode(Ids{0, 15, 3}), "0 15 3");
  EXPECT_EQ((*tokenizer)->TokenBytes(15), " 15");
  EXPECT_TRUE((*tokenizer)->StripsLeadingSpace());
}

TEST(PixelsTokenizerTest, RefusesWhatIsNoLevel) {
  const Loaded tokenizer = LoadPixels(20, 16);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  for (const char* word : {"16", "-1", "a", "1.5", "99999999999999999999", "3x", "+3", "0x3"}) {
    EXPECT_THAT(Message((*tokenizer)->Encode(std::string("7 ") + word).status()),
                HasSubstr(std::string("\"") + word + "\" at byte offset 2 is not a level"));
  }
  EXPECT_TRUE((*tokenizer)->IsSpecial(16));
  EXPECT_THAT(Message(LoadPixels(15, 16).status()), HasSubstr("\"vocab_size\" is 15"));
}

TEST(IdsTokenizerTest, TextIsEveryIdInDecimal) {
  CommonConfig config;
  config.vocab_size = 1000;
  config.tokenizer.type = "ids";
  const Loaded tokenizer = LoadTokenizer("/nonexistent", config);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->type(), "ids");
  EXPECT_EQ((*tokenizer)->vocab_size(), 1000);
  ExpectTextBack(**tokenizer, "999 0 17");
  EXPECT_FALSE((*tokenizer)->IsSpecial(0));
  EXPECT_THAT(
      Message((*tokenizer)->Encode("7 1000").status()),
      HasSubstr("\"1000\" at byte offset 2 is not a token id; token ids are integers from 0 "
                "to 999"));
}

}  // namespace
}  // namespace tvq
