#include "models/runtime/tokenizer/sentencepiece_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "models/runtime/tokenizer/charsmap.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

// Wire form of one field whose content is shorter than 128 bytes, or of a small number.
std::string Bytes(int number, std::string_view content) {
  std::string field = {static_cast<char>(number << 3 | 2), static_cast<char>(content.size())};
  return field.append(content);
}
std::string Number(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}
std::string Float(int number, float value) {
  std::string field(5, static_cast<char>(number << 3 | 5));
  std::memcpy(field.data() + 1, &value, sizeof value);
  return field;
}
std::string Piece(std::string_view text, int type = 1, float score = -1) {
  return Bytes(1, Bytes(1, text) + Float(2, score) + Number(3, type));
}

std::string Message(std::string_view model) {
  const absl::Status status = ParseSentencePieceModel(model, "m.model").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("m.model "));
  return std::string(status.message());
}

// A double array: a block of 256 units for each node's children.
class Trie {
 public:
  explicit Trie(size_t blocks) : units_(256 * blocks) {
    // An unused unit carries a label that its place in a block never asks for.
    for (size_t i = 0; i < units_.size(); ++i) units_[i] = (i & 0xff) ^ 1;
    units_[0] = 0;
  }
  // The node at `index`, reached by `label`, has its children in `block`, and maybe a value.
  void Node(size_t index, uint32_t label, uint32_t block, bool has_value = false) {
    const auto offset = static_cast<uint32_t>((256 * block) ^ index);
    units_[index] = offset << 10 | (has_value ? 1u << 8 : 0) | label;
  }
  void Value(size_t block, uint32_t value) { units_[256 * block] = value | 1u << 31; }

  std::string Map(std::string_view strings) const {
    const auto size = static_cast<uint32_t>(units_.size() * sizeof(uint32_t));
    std::string map(sizeof size + size, '\0');
    std::memcpy(map.data(), &size, sizeof size);
    std::memcpy(map.data() + sizeof size, units_.data(), size);
    return map.append(strings);
  }

 private:
  std::vector<uint32_t> units_;
};

constexpr std::string_view kStrings("x\0", 2);

TEST(SentencePieceModelTest, ReadsPiecesAndSpecs) {
  const std::string model = Piece("<unk>", 2) +
                            Piece(
                                "\xE2\x96\x81"
                                "a") +
                            Piece("<0x0A>", 6) +
                            Bytes(2, std::string("\xE2\x02") +
                                         "\x03"
                                         "???") +  // field 44
                            Bytes(3, Number(3, 0)) +
                            Bytes(5, Number(3, 1));
  const auto parsed = ParseSentencePieceModel(model, "m.model");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->pieces.size(), 3);
  EXPECT_EQ(parsed->pieces[1].text,
            "\xE2\x96\x81"
            "a");
  EXPECT_EQ(parsed->pieces[0].type, SentencePieceModel::PieceType::kUnknown);
  EXPECT_EQ(parsed->pieces[2].type, SentencePieceModel::PieceType::kByte);
  EXPECT_EQ(parsed->unknown_surface, "???");
  EXPECT_FALSE(parsed->add_dummy_prefix);  // the text's normalizer counts, not the denormalizer
}

TEST(SentencePieceModelTest, RefusesWhatTheLibraryWouldTrust) {
  EXPECT_THAT(Message(""), HasSubstr("has no pieces"));
  EXPECT_THAT(Message("\x0a\x7f"), HasSubstr("broken at offset 0"));
  EXPECT_THAT(Message(Piece("a") + "\x03"), HasSubstr("broken at offset 12"));
  EXPECT_THAT(Message(Piece("a") + "\x0b"), HasSubstr("broken"));  // a group
  EXPECT_THAT(Message(Number(1, 5)), HasSubstr("wrong type at offset 0"));
  EXPECT_THAT(Message(Piece("a") + Piece("")), HasSubstr("piece 1 at offset 14 has no text"));
  EXPECT_THAT(Message(Piece(std::string_view("a\0b", 3))), HasSubstr("zero byte"));
  EXPECT_THAT(Message(Piece("a", 7)), HasSubstr("has type 7; types are 1 to 6"));
  EXPECT_THAT(Message(Piece("a", 1, std::numeric_limits<float>::quiet_NaN())),
              HasSubstr("score that is not finite"));
  EXPECT_THAT(Message(Piece("a") + Bytes(3, Bytes(2, "abc"))), HasSubstr("is cut short"));
}

TEST(SentencePieceModelTest, RefusesSymbolsNestedBeyondTheLibrarysRoom) {
  std::string model;
  for (int size = 1; size <= 64; ++size)
    model += Piece(std::string(static_cast<size_t>(size), 'a'), 4);
  EXPECT_TRUE(ParseSentencePieceModel(model, "m.model").ok());
  model += Piece("b", 4) + Piece(std::string(65, 'a'), 4);
  EXPECT_THAT(Message(model), HasSubstr("begin one another"));
}

TEST(CharsmapTest, AcceptsAnEmptyMapAndASoundTrie) {
  EXPECT_TRUE(CheckCharsmap("").ok());
  Trie trie(3);
  trie.Node(0, 0, 1);
  trie.Node(256 + 'A', 'A', 2, /*has_value=*/true);
  trie.Value(2, 0);
  const absl::Status status = CheckCharsmap(trie.Map(kStrings));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(CharsmapTest, RefusesSizesAndStringsThatLie) {
  std::string map = Trie(1).Map(kStrings);
  EXPECT_FALSE(CheckCharsmap(map.substr(0, 3)).ok());
  EXPECT_FALSE(CheckCharsmap(map.substr(0, 900)).ok());
  EXPECT_FALSE(CheckCharsmap(map.substr(0, map.size() - 1)).ok());
  EXPECT_FALSE(CheckCharsmap(map.substr(0, map.size() - 2)).ok());
}

TEST(CharsmapTest, RefusesLinksOutsideValuesOutsideAndCircles) {
  Trie outside(2);
  outside.Node(0, 0, 1);
  outside.Node(256 + 'A', 'A', 2);
  EXPECT_THAT(std::string(CheckCharsmap(outside.Map(kStrings)).message()),
              HasSubstr("leads from unit 321 outside its 512 units"));

  Trie value(3);
  value.Node(0, 0, 1);
  value.Node(256 + 'A', 'A', 2, /*has_value=*/true);
  value.Value(2, 2);
  EXPECT_THAT(std::string(CheckCharsmap(value.Map(kStrings)).message()),
              HasSubstr("value 2 outside its 2 bytes"));

  Trie circle(2);
  circle.Node(0, 0, 1);
  circle.Node(256 + 'A', 'A', 1);
  EXPECT_THAT(std::string(CheckCharsmap(circle.Map(kStrings)).message()), HasSubstr("circle"));
}

TEST(CharsmapTest, RefusesMorePrefixesThanTheLibraryHasRoomFor) {
  for (const uint32_t length : {32u, 33u}) {
    Trie chain(length + 2);
    chain.Node(0, 0, 1);
    for (uint32_t i = 1; i <= length; ++i) {
      chain.Node(256 * i + 'A', 'A', i + 1, /*has_value=*/true);
      chain.Value(i + 1, 0);
    }
    EXPECT_EQ(CheckCharsmap(chain.Map(kStrings)).ok(), length == 32) << length;
  }
}

}  // namespace
}  // namespace tvq
