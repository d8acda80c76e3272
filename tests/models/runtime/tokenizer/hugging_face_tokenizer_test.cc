#include "models/runtime/tokenizer/hugging_face_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "models/runtime/tokenizer/stream_decoder.h"
#include "tests/models/runtime/tokenizer/golden_texts.h"

namespace tvq {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

using Ids = std::vector<int32_t>;

CommonConfig ConfigOf(int64_t vocab_size) {
  CommonConfig config;
  config.vocab_size = vocab_size;
  config.tokenizer = {.type = "huggingface", .file = "tokenizer.json"};
  return config;
}

absl::StatusOr<std::unique_ptr<HuggingFaceTokenizer>> Make(const json& file,
                                                           int64_t vocab_size = 1024) {
  return HuggingFaceTokenizer::Make(file.dump(), "tokenizer.json", ConfigOf(vocab_size));
}

std::string Streamed(const Tokenizer& tokenizer, const Ids& ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const int32_t id : ids) text += decoder.Push(id);
  return text + decoder.Finish();
}

// A tokenizer of whole characters, with a decoder.
json Characters(const std::vector<std::string>& tokens, const json& decoder) {
  json file = {{"version", "1.0"}, {"added_tokens", json::array()}, {"decoder", decoder}};
  file["model"] = {{"type", "BPE"}, {"vocab", json::object()}, {"merges", json::array()}};
  for (size_t id = 0; id < tokens.size(); ++id) file["model"]["vocab"][tokens[id]] = id;
  return file;
}

const json& LlamaDecoder() {
  static const json decoder = json::parse(R"({"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
  return decoder;
}

class GoldenTest : public testing::TestWithParam<const char*> {
 protected:
  const std::unique_ptr<Tokenizer> tokenizer_ =
      *LoadTokenizer(fixtures::GoldenFolder(GetParam()), ConfigOf(1024));
};

TEST_P(GoldenTest, TextsHaveTheirIdsAndAreDecodedAgain) {
  for (const json& row : fixtures::GoldenJson(GetParam(), "tokenize.json")) {
    const auto text = row["text"].get<std::string>();
    const auto ids = row["ids"].get<Ids>();
    const absl::StatusOr<Ids> encoded = tokenizer_->Encode(text);
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_EQ(*encoded, ids) << text;
    EXPECT_EQ(*tokenizer_->Decode(ids), row["decoded"].get<std::string>()) << text;
    EXPECT_EQ(Streamed(*tokenizer_, ids), row["decoded"].get<std::string>()) << text;
  }
}

TEST_P(GoldenTest, AnyIdsAreStreamedAsTheWholeDecodes) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same each time
  for (int trial = 0; trial < 2000; ++trial) {
    // Of some trials all from the range in which most are bytes.
    std::uniform_int_distribution<int32_t> any(0, trial % 3 == 0 ? 300 : 1023);
    Ids ids(static_cast<size_t>(trial % 17));
    for (int32_t& id : ids) id = any(random);
    ASSERT_EQ(Streamed(*tokenizer_, ids), *tokenizer_->Decode(ids)) << testing::PrintToString(ids);
  }
}

INSTANTIATE_TEST_SUITE_P(, GoldenTest,
                         testing::Values("llama_gqa", "qwen3_tied", "mamba2_one_group"),
                         [](const auto& info) { return std::string(info.param); });

TEST(HuggingFaceTokenizerTest, SpecialTokensAreReadAndLeftOut) {
  const auto tokenizer = Make(fixtures::GoldenJson("qwen3_tied", "tokenizer.json"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const absl::StatusOr<Ids> ids = (*tokenizer)->Encode("<|im_start|>a<|im_end|>");
  ASSERT_TRUE(ids.ok());
  ASSERT_EQ(ids->size(), 3);
  EXPECT_EQ(ids->front(), 1);
  EXPECT_EQ(ids->back(), 2);
  EXPECT_TRUE((*tokenizer)->IsSpecial(1));
  EXPECT_EQ((*tokenizer)->TokenBytes(1), "");
  EXPECT_FALSE((*tokenizer)->IsSpecial(ids->at(1)));
  EXPECT_EQ(*(*tokenizer)->Decode(*ids), "a");
  const absl::StatusOr<Ids> plain = (*tokenizer)->library()->Encode("<|im_start|>a", true);
  ASSERT_TRUE(plain.ok());
  EXPECT_GT(plain->size(), 3);
  EXPECT_EQ(*(*tokenizer)->Decode(*plain), "<|im_start|>a");
}

TEST(HuggingFaceTokenizerTest, TokensBehindTheVocabularyAreOfNoUse) {
  const json file = fixtures::GoldenJson("qwen3_tied", "tokenizer.json");
  const auto whole = Make(file), tokenizer = Make(file, 1000);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocab_size(), 1000);
  const std::string text((*whole)->TokenBytes(1010));
  ASSERT_EQ(*(*whole)->Encode(text), Ids{1010});
  EXPECT_THAT((*tokenizer)->Encode(text).status().message(), HasSubstr("token id 1010"));
  EXPECT_TRUE((*tokenizer)->Encode("a").ok());
}

TEST(HuggingFaceTokenizerTest, IdsWithoutATokenHaveNoText) {
  const auto tokenizer = Make(fixtures::GoldenJson("qwen3_tied", "tokenizer.json"), 2000);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocab_size(), 2000);
  EXPECT_TRUE((*tokenizer)->IsSpecial(1999));
  EXPECT_EQ(*(*tokenizer)->Decode(Ids{1999, 1500}), "");
  EXPECT_THAT((*tokenizer)->Decode(Ids{2000}).status().message(), HasSubstr("token id 2000"));
}

TEST(HuggingFaceTokenizerTest, ARunOfBytesShowsAsTextOnlyIfAllOfItIsValid) {
  const auto tokenizer = Make(Characters({"<0xC3>", "<0xA9>", "a", "<0x20>"}, LlamaDecoder()));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(*(*tokenizer)->Decode(Ids{0, 1, 2}),
            "\xC3\xA9"
            "a");
  EXPECT_EQ(*(*tokenizer)->Decode(Ids{0, 1, 0, 2}), "\uFFFD\uFFFD\uFFFDa");
  StreamDecoder decoder(**tokenizer);
  EXPECT_EQ(decoder.Push(0), "");
  EXPECT_EQ(decoder.Push(1), "");  // what follows may still break the run
  EXPECT_EQ(decoder.Push(2),
            "\xC3\xA9"
            "a");
  EXPECT_EQ(decoder.Push(0), "");
  EXPECT_EQ(decoder.Push(0), "\uFFFD\uFFFD");  // nothing can mend it
  EXPECT_EQ(decoder.Push(1), "\uFFFD");
  EXPECT_EQ(decoder.Push(2), "a");
  EXPECT_EQ(decoder.Push(0), "");
  EXPECT_EQ(decoder.Finish(), "\uFFFD");
  EXPECT_EQ(Streamed(**tokenizer, {3, 2}), "a");  // a space at the start
}

// What decoders do, with ids in every order, as `tokenizers` decodes the whole.
TEST(HuggingFaceTokenizerTest, EveryDecoderIsStreamedAsTheWholeDecodes) {
  const std::vector<std::string> tokens = {"▁a",     "▁",  "##b", "<0xE2>", "<0x82>",
                                           "<0xAC>", "Ġc", "Ã",   "©",      "<0x20>",
                                           ".",      " d", "n't", "▁▁",     "é"};
  const std::vector<std::string> decoders = {
      LlamaDecoder().dump(),
      "null",
      R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})",
      R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})",
      R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true})",
      R"({"type": "WordPiece", "prefix": "##", "cleanup": true})",
      R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}]})",
      R"({"type": "Sequence", "decoders": [
          {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
          {"type": "Fuse"}]})"};
  std::mt19937 random(2);  // NOLINT(cert-msc51-cpp): the same each time
  std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(tokens.size()) - 1);
  for (const std::string& decoder : decoders) {
    const auto tokenizer = Make(Characters(tokens, json::parse(decoder)));
    ASSERT_TRUE(tokenizer.ok()) << decoder << tokenizer.status();
    for (int trial = 0; trial < 1000; ++trial) {
      Ids ids(static_cast<size_t>(trial % 9));
      for (int32_t& id : ids) id = any(random);
      ASSERT_EQ(Streamed(**tokenizer, ids), *(*tokenizer)->Decode(ids))
          << decoder << testing::PrintToString(ids);
    }
  }
}

TEST(HuggingFaceTokenizerTest, BadFilesAreRefused) {
  const json good = fixtures::GoldenJson("qwen3_tied", "tokenizer.json");
  EXPECT_THAT(Make(good, 700).status().message(),
              HasSubstr("tokenizer.json has ids up to 1017, but config.json's vocab_size is 700"));
  const std::string text = good.dump();
  const auto cut =
      HuggingFaceTokenizer::Make(text.substr(0, 10000), "tokenizer.json", ConfigOf(1024));
  EXPECT_EQ(cut.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(cut.status().message(), HasSubstr("tokenizer.json: EOF while parsing"));
  json bad = good;
  bad["decoder"] = {
      {"type", "CTC"}, {"pad_token", "p"}, {"word_delimiter_token", "|"}, {"cleanup", true}};
  EXPECT_THAT(Make(bad).status().message(),
              HasSubstr("its decoder has a CTC where none is supported"));
  bad = good;
  bad["model"]["dropout"] = 0.5;
  EXPECT_THAT(Make(bad).status().message(), HasSubstr("has a dropout"));
  bad = good;
  bad["model"]["vocab"]["far away"] = 4294967295U;
  EXPECT_THAT(Make(bad).status().message(), HasSubstr("has ids up to 4294967295"));
  bad = good;
  bad["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "(("}}}, {"content", ""}};
  EXPECT_FALSE(Make(bad).ok());
  bad = good;
  bad["decoder"] = 5;  // at which the library panics
  EXPECT_FALSE(Make(bad).ok());
}

TEST(HuggingFaceTokenizerTest, DeepFilesAreRefused) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_FALSE(HuggingFaceTokenizer::Make(deep, "tokenizer.json", ConfigOf(10)).ok());
  std::string nested = R"({"normalizer": )", end = "}";
  for (int i = 0; i < 100000; ++i) {
    nested += R"({"type": "Sequence", "normalizers": [)";
    end += "]}";
  }
  EXPECT_FALSE(HuggingFaceTokenizer::Make(nested + "null" + end, "t", ConfigOf(10)).ok());
}

TEST(HuggingFaceTokenizerTest, ATextThatWouldGrowWithoutBoundsIsRefused) {
  json file = fixtures::GoldenJson("qwen3_tied", "tokenizer.json");
  file["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1 << 20, 'b')}};
  const auto tokenizer = Make(file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const absl::StatusOr<Ids> ids = (*tokenizer)->Encode(std::string(10000, 'a'));
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kResourceExhausted) << ids.status();
  EXPECT_TRUE((*tokenizer)->Encode("c").ok());
}

TEST(HuggingFaceTokenizerTest, ARegexThatTriesWithoutEndEnds) {
  json file = fixtures::GoldenJson("qwen3_tied", "tokenizer.json");
  file["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"Regex", "(?=(a+)+$)\\1b"}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  const auto tokenizer = Make(file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  (void)(*tokenizer)->Encode(std::string(5000, 'a') + "c");
}

// Of 20,000 places each takes some milliseconds, of which the library's own limit sees one at a
// time.
TEST(HuggingFaceTokenizerTest, ARegexThatIsSlowAtEveryPlaceEnds) {
  json slow = fixtures::GoldenJson("qwen3_tied", "tokenizer.json");
  std::string twice;
  for (int i = 0; i < 17; ++i) twice += "(?:a(?!b)|a)";
  slow["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"Regex", "(?=" + twice + "c)a|[\\s\\S]"}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  const auto tokenizer = Make(slow);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_TRUE((*tokenizer)->Encode("aaaa").ok());
  EXPECT_EQ((*tokenizer)->Encode(std::string(20000, 'a')).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(HuggingFaceTokenizerTest, TextMustBeUtf8) {
  const auto tokenizer = Make(fixtures::GoldenJson("qwen3_tied", "tokenizer.json"));
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_THAT((*tokenizer)->Encode("a\xFF").status().message(), HasSubstr("byte offset 1"));
}

}  // namespace
}  // namespace tvq
