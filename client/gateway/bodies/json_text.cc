#include "client/gateway/bodies/json_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>

#include "base/json.h"

namespace tvq::gateway {
namespace {

constexpr char kDigits[] = "0123456789abcdef";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool Continues(unsigned char byte) { return (byte & 0xC0) == 0x80; }

void AppendEscaped(char c, std::string* out) {
  switch (c) {
    case '"':
      *out += "\\\"";
      return;
    case '\\':
      *out += "\\\\";
      return;
    case '\n':
      *out += "\\n";
      return;
    case '\r':
      *out += "\\r";
      return;
    case '\t':
      *out += "\\t";
      return;
    default:
      *out += "\\u00";
      out->push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
      out->push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
}

// Some clients end a line of an event at those that Unicode calls ends of lines.
void AppendCharacter(std::string_view character, std::string* out) {
  for (const auto& [end, escaped] : kJsonLineEnds) {
    if (character == end) character = escaped;
  }
  *out += character;
}

}  // namespace

// Table 3-7 of the Unicode standard.
size_t CharacterBytes(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  size_t size = 0;
  unsigned char low = 0x80, high = 0xBF;  // of the second byte
  if (first >= 0xC2 && first <= 0xDF) {
    size = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    size = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    size = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  }
  if (size == 0 || text.size() < size || byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < size; ++i) {
    if (!Continues(byte(i))) return 0;
  }
  return size;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t size = CharacterBytes(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

void AppendJsonString(std::string_view text, std::string* out) {
  out->push_back('"');
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == '"' || c == '\\' || c == 0x7F) {
      AppendEscaped(text[i], out);
      ++i;
    } else if (c < 0x80) {
      out->push_back(text[i]);
      ++i;
    } else if (const size_t size = CharacterBytes(text.substr(i)); size > 0) {
      AppendCharacter(text.substr(i, size), out);
      i += size;
    } else {
      *out += kReplacement;
      ++i;
    }
  }
  out->push_back('"');
}

void AppendJsonNumber(float value, std::string* out) {
  if (!std::isfinite(value)) value = -9999;
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out->append(digits.data(), end);
}

void AppendJsonNumber(int64_t value, std::string* out) {
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out->append(digits.data(), end);
}

}  // namespace tvq::gateway
