#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "base/utf8.h"
#include "models/runtime/tokenizer/stream_decoder.h"
#include "models/runtime/tokenizer/tokenizer.h"
#include "models/runtime/tokenizer/types.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Loaded = absl::StatusOr<std::unique_ptr<Tokenizer>>;
using Ids = std::vector<int32_t>;

constexpr char kFolder[] = "tests/data/sentencepiece";

CommonConfig ConfigFor(const std::string& file, int64_t vocab_size) {
  CommonConfig config;
  config.vocab_size = vocab_size;
  config.tokenizer.type = "sentencepiece";
  config.tokenizer.file = file;
  return config;
}

std::unique_ptr<Tokenizer> Load(const std::string& file, int64_t vocab_size) {
  Loaded tokenizer = LoadTokenizer(kFolder, ConfigFor(file, vocab_size));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::string FileBytes(const std::string& file) {
  std::ostringstream bytes;
  bytes << std::ifstream(std::string(kFolder) + "/" + file, std::ios::binary).rdbuf();
  return bytes.str();
}

Loaded Open(std::string_view model) {
  return MakeSentencePieceTokenizer(model, "m.model", ConfigFor("m.model", 1000));
}

void ExpectRoundTrip(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.Encode(text);
  ASSERT_TRUE(ids.ok()) << ids.status();
  const auto decoded = tokenizer.Decode(*ids);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, text);
}

const std::vector<std::string>& Texts() {
  static const std::vector<std::string> texts = {
      "",
      "Before we proceed any further, hear me speak.",
      "First Citizen:\n\nYou are all resolved rather to die than to famish?\n",
      " leading, double  and trailing ",
      "na\xC3\xAFve \xE2\x82\xAC \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80 e\xCC\x81",
      "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB",
      std::string("zero \0 byte\t\r\n", 13),
      "<|user|>Speak, speak.<|user|>",
      "<s> </s> <unk> <0x41>"};
  return texts;
}

TEST(SentencePieceTokenizerTest, AgreesWithTheLibrarysOwnProgram) {
  // Ids as `spm_encode --output_format=id` prints them.
  const auto tokenizer = Load("byte_fallback.model", 480);
  EXPECT_EQ(tokenizer->type(), "sentencepiece");
  EXPECT_EQ(tokenizer->vocab_size(), 480);
  EXPECT_THAT(*tokenizer->Encode("Hear me speak. \xE2\x82\xAC"),
              ElementsAre(396, 303, 295, 288, 278, 263, 271, 311, 267, 260, 230, 134, 176));
  EXPECT_THAT(*Load("rules.model", 160)->Encode("\xEF\xBC\xA1 \xEF\xAC\x81sh"),
              ElementsAre(42, 23, 17, 107));
}

TEST(SentencePieceTokenizerTest, RoundTripsAnyTextWithByteFallback) {
  const auto tokenizer = Load("byte_fallback.model", 480);
  for (const std::string& text : Texts()) ExpectRoundTrip(*tokenizer, text);
}

TEST(SentencePieceTokenizerTest, WithoutDummyPrefixNoSpaceIsDropped) {
  const auto tokenizer = Load("no_prefix.model", 160);
  EXPECT_FALSE(tokenizer->StripsLeadingSpace());
  for (const char* text : {"hear me", " hear me", "  hear  me "}) ExpectRoundTrip(*tokenizer, text);
}

TEST(SentencePieceTokenizerTest, KnowsSpecialsBytesAndSymbols) {
  const auto tokenizer = Load("byte_fallback.model", 500);
  EXPECT_TRUE(tokenizer->StripsLeadingSpace());
  // 0 <unk>, 1 <s>, 2 </s>, 3 <|user|>, 4.. the bytes.
  EXPECT_TRUE(tokenizer->IsSpecial(0));
  EXPECT_EQ(tokenizer->TokenBytes(0), " \xE2\x81\x87 ");
  for (const int32_t special : {1, 2, 480, 499}) {
    EXPECT_TRUE(tokenizer->IsSpecial(special)) << special;
    EXPECT_EQ(tokenizer->TokenBytes(special), "") << special;
  }
  EXPECT_FALSE(tokenizer->IsSpecial(3));
  EXPECT_EQ(tokenizer->TokenBytes(3), "<|user|>");
  for (int32_t byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(tokenizer->TokenBytes(4 + byte), std::string(1, static_cast<char>(byte)));
    EXPECT_FALSE(tokenizer->IsSpecial(4 + byte));
  }
  const Ids word = *tokenizer->Encode(" the");
  ASSERT_FALSE(word.empty());
  EXPECT_EQ(tokenizer->TokenBytes(word.back()).substr(0, 2), " t");
}

TEST(SentencePieceTokenizerTest, UnknownCharacterShowsAsTheModelsSurface) {
  const auto tokenizer = Load("rules.model", 160);
  const Ids ids = *tokenizer->Encode("the \xE4\xB8\xAD");
  EXPECT_EQ(ids.back(), 0);
  EXPECT_EQ(*tokenizer->Decode(ids), "the  \xE2\x81\x87 ");
}

TEST(SentencePieceTokenizerTest, NamesACharacterThatBecameTheUnknownToken) {
  const auto tokenizer = Load("rules.model", 160);
  EXPECT_EQ(tokenizer->unknown_token(), 0);
  EXPECT_TRUE(tokenizer->CheckKnown("the speak", *tokenizer->Encode("the speak")).ok());
  const std::string text = "the \xE4\xB8\xAD hear";
  EXPECT_EQ(std::string(tokenizer->CheckKnown(text, *tokenizer->Encode(text)).message()),
            "the character \"\xE4\xB8\xAD\" (U+4E2D) at byte offset 4 is not in the model's "
            "vocabulary");
}

TEST(SentencePieceTokenizerTest, UnknownCharactersSideBySideAreOneToken) {
  const auto tokenizer = Load("rules.model", 160);
  for (const std::string& text :
       {std::string("\xE4\xB8\xAD\xE6\x96\x87"), std::string("hear\xE4\xB8\xAD\xE6\x96\x87")}) {
    const Ids ids = *tokenizer->Encode(text);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), 0), 1);
    EXPECT_THAT(std::string(tokenizer->CheckKnown(text, ids).message()),
                HasSubstr(absl::StrCat("(U+4E2D) at byte offset ", text.size() - 6, " ")));
  }
}

// What CheckKnown says of a text that has characters outside the vocabulary.
std::string Unknown(const Tokenizer& tokenizer, std::string_view text) {
  const absl::Status status = tokenizer.CheckKnown(text, *tokenizer.Encode(text));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(SentencePieceTokenizerTest, NamesASpaceThatIsNoPiece) {
  const auto tokenizer = Load("no_space.model", 21);
  EXPECT_TRUE(tokenizer->CheckKnown("xy", *tokenizer->Encode("xy")).ok());
  for (const auto& [text, offset] :
       std::vector<std::pair<std::string, int>>{{"x ", 1},
                                                {" ", 0},
                                                {"  ", 0},
                                                {"x y", 1},
                                                {"x  y", 1},
                                                {"\xE5\xA4\xA9 \xE5\x9C\xB0 ", 3}}) {
    EXPECT_EQ(Unknown(*tokenizer, text), absl::StrCat("the character U+0020 at byte offset ",
                                                      offset, " is not in the model's vocabulary"));
  }
}

TEST(SentencePieceTokenizerTest, BytesSpellWhatNoPieceDoes) {
  const auto tokenizer = Load("byte_fallback.model", 480);
  const std::string text = "the \xE4\xB8\xAD";
  EXPECT_TRUE(tokenizer->CheckKnown(text, *tokenizer->Encode(text)).ok());
}

TEST(SentencePieceTokenizerTest, RefusesInvalidUtf8AndIdsOutside) {
  const auto tokenizer = Load("byte_fallback.model", 480);
  const absl::Status text = tokenizer->Encode("a\xFF").status();
  EXPECT_EQ(text.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(text.message()), HasSubstr("byte offset 1"));
  EXPECT_EQ(tokenizer->Decode(Ids{480}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SentencePieceTokenizerTest, RefusesAVocabularyThatDoesNotFit) {
  const absl::Status status =
      LoadTokenizer(kFolder, ConfigFor("byte_fallback.model", 479)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("byte_fallback.model has 480 pieces, but config.json's vocab_size is 479"));
}

TEST(SentencePieceTokenizerTest, StreamedTextIsDecodeForAnyIds) {
  const auto tokenizer = Load("byte_fallback.model", 480);
  std::mt19937 random(5);
  for (int round = 0; round < 2'000; ++round) {
    Ids ids(random() % 24);
    // Half of the ids are bytes, so that characters come broken and whole.
    for (int32_t& id : ids)
      id = static_cast<int32_t>(random() % 2 ? 4 + random() % 256 : random() % 480);
    StreamDecoder decoder(*tokenizer);
    std::string streamed;
    for (const int32_t id : ids) {
      const std::string delta = decoder.Push(id);
      ASSERT_TRUE(CheckUtf8(delta).ok());
      streamed += delta;
    }
    streamed += decoder.Finish();
    ASSERT_EQ(streamed, *tokenizer->Decode(ids));
  }
}

TEST(SentencePieceTokenizerTest, WorksFromManyThreadsAndModels) {
  const auto shared = Load("byte_fallback.model", 480);
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const auto own = Load("rules.model", 160);
        EXPECT_EQ(*own->Decode(*own->Encode("hear me speak")), "hear me speak");
        for (const std::string& text : Texts()) ExpectRoundTrip(*shared, text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SentencePieceTokenizerTest, EveryTruncationIsRefusedOrHarmless) {
  const std::string model = FileBytes("rules.model");
  int refused = 0;
  for (size_t size = 0; size < model.size(); ++size) {
    const Loaded tokenizer = Open(model.substr(0, size));
    if (!tokenizer.ok()) {
      ++refused;
      ASSERT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument) << size;
      ASSERT_THAT(std::string(tokenizer.status().message()), HasSubstr("m.model")) << size;
    } else {
      // Cut between two fields, a protocol buffer is a shorter one.
      ASSERT_TRUE((*tokenizer)->Encode("hear me speak").ok()) << size;
    }
  }
  EXPECT_GT(refused, static_cast<int>(model.size()) * 9 / 10);
}

TEST(SentencePieceTokenizerTest, MutatedModelsNeverCrash) {
  for (const char* file :
       {"rules.model", "no_prefix.model", "byte_fallback.model", "no_space.model"}) {
    const std::string good = FileBytes(file);
    std::mt19937 random(11);
    int opened = 0;
    for (int round = 0; round < 3'000; ++round) {
      std::string model = good;
      const int changes = 1 + static_cast<int>(random() % 4);
      for (int i = 0; i < changes; ++i) {
        model[random() % model.size()] = static_cast<char>(random() % 256);
      }
      const Loaded tokenizer = Open(model);
      if (!tokenizer.ok()) continue;
      ++opened;
      for (const std::string& text : Texts()) {
        const auto ids = (*tokenizer)->Encode(text);
        ASSERT_TRUE(!ids.ok() || (*tokenizer)->Decode(*ids).ok());
        if (ids.ok()) (void)(*tokenizer)->CheckKnown(text, *ids);
      }
    }
    EXPECT_GT(opened, 0) << file;
  }
}

}  // namespace
}  // namespace tvq
