#include "models/runtime/tokenizer/stream_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/utf8.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;

using Ids = std::vector<int32_t>;

constexpr int32_t kUnknown = 8;

// Pieces that cut characters and words anywhere.
class FakeTokenizer : public Tokenizer {
 public:
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view) const override { return Ids{}; }
  std::string_view TokenBytes(int32_t id) const override { return kBytes[id]; }
  bool IsSpecial(int32_t id) const override { return id == 0 || id == kUnknown; }
  bool StripsLeadingSpace() const override { return true; }
  int32_t vocab_size() const override { return std::size(kBytes); }
  std::string_view type() const override { return "fake"; }

 private:
  // Two bytes of an emoji, its other two, a lone lead with a letter before it, ...
  static constexpr std::string_view kBytes[] = {
      "",     " a",       "b",    "\xF0\x9F", "\x98\x80",         "x\xE2",     "\x82", "\xAC y",
      " ? ",  "\xFF\xC3", " ",    "\xED",     "\xA0\x80",         "\xF4\x90z", "\xC3", "\xA9",
      "   z", "\xE2\x82", "\n\n", "\xEF\xBF", "\xF0\x9F\x98\x80", "\x80"};
};

std::vector<std::string> Deltas(const Ids& ids, StreamDecoder decoder) {
  std::vector<std::string> deltas;
  for (const int32_t id : ids) deltas.push_back(decoder.Push(id));
  deltas.push_back(decoder.Finish());
  return deltas;
}

// All bytes at once, repaired by the rule of maximal subparts.
std::string Repaired(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Utf8Prefix prefix = ScanUtf8(bytes);
    text += prefix.kind == Utf8Prefix::kCharacter ? bytes.substr(0, prefix.size) : kReplacement;
    bytes.remove_prefix(prefix.size);
  }
  return text;
}

TEST(StreamDecoderTest, HoldsBackAnIncompleteCharacter) {
  const FakeTokenizer tokenizer;
  EXPECT_THAT(Deltas({2, 3, 4, 5, 6, 7}, StreamDecoder(tokenizer)),
              ElementsAre("b", "", "\xF0\x9F\x98\x80", "x", "", "\xE2\x82\xAC y", ""));
}

TEST(StreamDecoderTest, BytesThatFormNoCharacterAreReplacedAsSoonAsThatIsKnown) {
  const FakeTokenizer tokenizer;
  EXPECT_THAT(Deltas({3, 2}, StreamDecoder(tokenizer)), ElementsAre("",
                                                                    "\xEF\xBF\xBD"
                                                                    "b",
                                                                    ""));
  EXPECT_THAT(Deltas({9, 15}, StreamDecoder(tokenizer)),
              ElementsAre("\xEF\xBF\xBD", "\xC3\xA9", ""));
  EXPECT_THAT(Deltas({2, 3}, StreamDecoder(tokenizer)), ElementsAre("b", "", "\xEF\xBF\xBD"));
  EXPECT_THAT(Deltas({21}, StreamDecoder(tokenizer)), ElementsAre("\xEF\xBF\xBD", ""));
}

TEST(StreamDecoderTest, DropsOneSpaceAtTheStartOfATextOnly) {
  const FakeTokenizer tokenizer;
  EXPECT_THAT(Deltas({0, 1, 1}, StreamDecoder(tokenizer)), ElementsAre("", "a", " a", ""));
  EXPECT_THAT(Deltas({16, 1}, StreamDecoder(tokenizer)), ElementsAre("  z", " a", ""));
  EXPECT_THAT(Deltas({2, 1}, StreamDecoder(tokenizer)), ElementsAre("b", " a", ""));
  EXPECT_THAT(Deltas({10, 10, 1}, StreamDecoder(tokenizer)), ElementsAre("", " ", " a", ""));
  EXPECT_THAT(Deltas({kUnknown, 1}, StreamDecoder(tokenizer)), ElementsAre(" ? ", " a", ""));
  EXPECT_THAT(Deltas({1, 1}, StreamDecoder(tokenizer, StreamDecoder::Start::kContinuation)),
              ElementsAre(" a", " a", ""));
}

TEST(StreamDecoderTest, DeltasAreWholeCharactersAndAddUpToDecode) {
  const FakeTokenizer tokenizer;
  std::mt19937 random(3);
  for (int round = 0; round < 5'000; ++round) {
    Ids ids(random() % 20);
    std::string bytes;
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(random() % static_cast<unsigned>(tokenizer.vocab_size()));
      bytes += tokenizer.TokenBytes(id);
    }
    std::string streamed;
    for (const std::string& delta :
         Deltas(ids, StreamDecoder(tokenizer, StreamDecoder::Start::kContinuation))) {
      ASSERT_TRUE(CheckUtf8(delta).ok());
      streamed += delta;
    }
    ASSERT_EQ(streamed, Repaired(bytes));

    std::string text;
    for (const std::string& delta : Deltas(ids, StreamDecoder(tokenizer))) text += delta;
    ASSERT_EQ(text, *tokenizer.Decode(ids));
  }
}

TEST(StreamDecoderTest, ACopyGoesOnByItself) {
  const FakeTokenizer tokenizer;
  StreamDecoder first(tokenizer);
  first.Push(3);
  StreamDecoder second = first;
  EXPECT_EQ(first.Push(4), "\xF0\x9F\x98\x80");
  EXPECT_EQ(second.Push(2),
            "\xEF\xBF\xBD"
            "b");
}

}  // namespace
}  // namespace tvq
