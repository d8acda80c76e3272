#include "models/runtime/tokenizer/python_literal.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "base/utf8.h"

namespace tvq {
namespace {

// The UTF-8 of a code point; nullopt if it is no character.
std::optional<std::string> Utf8(uint32_t number) {
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  const auto rest = [&](int shift) { return byte(0x80 | (number >> shift & 0x3F)); };
  if (number < 0x80) return std::string{byte(number)};
  if (number < 0x800) return std::string{byte(0xC0 | number >> 6), rest(0)};
  if (number >= 0xD800 && number < 0xE000) return std::nullopt;
  if (number < 0x10000) return std::string{byte(0xE0 | number >> 12), rest(6), rest(0)};
  if (number > 0x10FFFF) return std::nullopt;
  return std::string{byte(0xF0 | number >> 18), rest(12), rest(6), rest(0)};
}

// The bytes of an escape. `text` begins behind its backslash; removes the rest of the escape from
// `text`.
std::optional<std::string> TakeEscape(std::string_view* text, bool is_bytes) {
  if (text->empty()) return std::nullopt;
  const char kind = text->front();
  text->remove_prefix(1);
  switch (kind) {
    case 'n':
      return "\n";
    case 'r':
      return "\r";
    case 't':
      return "\t";
    case '\\':
    case '\'':
    case '"':
      return std::string(1, kind);
    default:
      break;
  }
  const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  if (digits == 0 || text->size() < digits || (is_bytes && kind != 'x')) return std::nullopt;
  uint32_t number = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + digits, number, 16);
  if (parsed.ptr != text->data() + digits) return std::nullopt;
  text->remove_prefix(digits);
  if (is_bytes) return std::string(1, static_cast<char>(number));
  return Utf8(number);
}

}  // namespace

absl::StatusOr<std::string> ParsePythonLiteral(std::string_view literal) {
  const absl::Status refused =
      absl::InvalidArgumentError("has no literal of Python's, such as 'text' or b'\\xe2\\x80'");
  const bool is_bytes = literal.starts_with('b');
  if (is_bytes) literal.remove_prefix(1);
  const char quote = literal.empty() ? '\0' : literal.front();
  if (literal.size() < 2 || (quote != '\'' && quote != '"') || literal.back() != quote) {
    return refused;
  }
  std::string bytes;
  for (std::string_view rest = literal.substr(1, literal.size() - 2); !rest.empty();) {
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c == quote || (is_bytes && static_cast<unsigned char>(c) >= 0x80)) return refused;
    if (c != '\\') {
      bytes += c;
      continue;
    }
    const std::optional<std::string> escaped = TakeEscape(&rest, is_bytes);
    if (!escaped) return refused;
    bytes += *escaped;
  }
  if (!is_bytes && !CheckUtf8(bytes).ok()) return refused;
  return bytes;
}

}  // namespace tvq
