#include "base/utf8.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_format.h"

namespace tvq {
namespace {

struct Lead {
  size_t length;             // of the character; 0: no character begins so
  unsigned char second_min;  // the second byte's range; later ones have 80..BF
  unsigned char second_max;
};

Lead LeadByte(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};  // continuation bytes and overlong forms
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};  // ED A0.. would be surrogates
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // F4 90.. would be above U+10FFFF
  return {0, 0, 0};
}

struct Range {
  uint32_t first, last;
};

template <size_t n>
bool IsIn(const Range (&ranges)[n], uint32_t number) {
  return std::any_of(std::begin(ranges), std::end(ranges), [&](const Range& range) {
    return range.first <= number && number <= range.last;
  });
}

// Whether a character can be seen in quotes and leaves what is around it as it is: no quotation
// mark, no space, and none of the common ones that combine with others.
bool ShowsAlone(uint32_t number) {
  constexpr Range kOthers[] = {
      {' ', ' '},       {'"', '"'},       {0xA0, 0xA0},     {0x300, 0x36F},   {0x1AB0, 0x1AFF},
      {0x1DC0, 0x1DFF}, {0x2000, 0x200A}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x20D0, 0x20FF},
      {0x3000, 0x3000}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFFFC, 0xFFFD},
  };
  return IsSeen(number) && !IsIn(kOthers, number);
}

}  // namespace

Utf8Prefix ScanUtf8(std::string_view text) {
  if (text.empty()) return {Utf8Prefix::kIncomplete, 0};
  const Lead lead = LeadByte(static_cast<unsigned char>(text[0]));
  if (lead.length == 0) return {Utf8Prefix::kInvalid, 1};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Utf8Prefix::kIncomplete, i};
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char min = i == 1 ? lead.second_min : 0x80;
    const unsigned char max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {Utf8Prefix::kInvalid, i};
  }
  return {Utf8Prefix::kCharacter, lead.length};
}

std::string_view Utf8Beginning(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t size = max_bytes;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size);
}

uint32_t CodePoint(std::string_view character) {
  if (character.empty()) return 0;
  const auto first = static_cast<unsigned char>(character[0]);
  uint32_t number = character.size() == 1 ? first : first & (0x7Fu >> character.size());
  for (const char c : character.substr(1)) number = number << 6 | (c & 0x3F);
  return number;
}

bool IsSeen(uint32_t number) {
  constexpr Range kUnseen[] = {
      {0x00, 0x1F},       {0x7F, 0x9F},       {0xAD, 0xAD},        {0x600, 0x605},
      {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},      {0x890, 0x891},
      {0x8E2, 0x8E2},     {0x180E, 0x180E},   {0x200B, 0x200F},    {0x2028, 0x202E},
      {0x2060, 0x206F},   {0xE000, 0xF8FF},   {0xFEFF, 0xFEFF},    {0xFFF0, 0xFFFB},
      {0xFFFE, 0xFFFF},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD},  {0x13430, 0x1343F},
      {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0x10FFFF},
  };
  return !IsIn(kUnseen, number);
}

std::string ShownCharacter(std::string_view character) {
  const uint32_t number = CodePoint(character);
  if (!ShowsAlone(number)) return absl::StrFormat("U+%04X", number);
  return absl::StrFormat("\"%s\" (U+%04X)", character, number);
}

absl::Status CheckUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Prefix prefix = ScanUtf8(text.substr(i));
    if (prefix.kind != Utf8Prefix::kCharacter) {
      return absl::InvalidArgumentError(
          absl::StrFormat("text is not valid UTF-8 at byte offset %d (byte 0x%02X)", i,
                          static_cast<unsigned char>(text[i])));
    }
    i += prefix.size;
  }
  return absl::OkStatus();
}

}  // namespace tvq
