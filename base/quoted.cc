#include "base/quoted.h"

#include "absl/strings/str_format.h"
#include "base/utf8.h"

namespace tvq {
namespace {

constexpr size_t kLongest = 100;  // bytes

std::string Escaped(std::string_view character) {
  switch (character[0]) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '"':
    case '\\':
      return {'\\', character[0]};
    default:
      break;
  }
  const uint32_t number = CodePoint(character);
  return IsSeen(number) ? std::string(character) : absl::StrFormat("\\u{%04X}", number);
}

}  // namespace

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  size_t at = 0;
  while (at < text.size()) {
    const auto [kind, size] = ScanUtf8(text.substr(at));
    if (at + size > kLongest) break;
    const std::string_view next = text.substr(at, size);
    if (kind == Utf8Prefix::kCharacter) {
      quoted += Escaped(next);
    } else {
      for (const char c : next) absl::StrAppendFormat(&quoted, "\\x%02X", static_cast<uint8_t>(c));
    }
    at += size;
  }
  return quoted + (at < text.size() ? "...\"" : "\"");
}

}  // namespace tvq
