#ifndef TVQ_BASE_UTF8_H_
#define TVQ_BASE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tvq {

// What text begins with, by the Unicode Standard's table of well-formed byte sequences (3-7): no
// overlong forms, no surrogates, nothing above U+10FFFF.
struct Utf8Prefix {
  enum Kind {
    kCharacter,   // a whole character of `size` bytes, 1 to 4
    kIncomplete,  // the text ends within a character; `size` bytes of it are there, 0 to 3
    kInvalid      // the first `size` bytes, 1 to 3, cannot begin a character, whatever follows
  };
  Kind kind;
  size_t size;
};

// kInvalid covers the longest beginning of a character that is there (the "maximal subpart"), so
// that replacing each by one U+FFFD gives what browsers and Python give.
Utf8Prefix ScanUtf8(std::string_view text);

// U+FFFD, the replacement character.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The longest beginning of valid UTF-8 that has at most `max_bytes` bytes and ends with a
// character.
std::string_view Utf8Beginning(std::string_view text, size_t max_bytes);

// The number of a whole character, 0 of none.
uint32_t CodePoint(std::string_view character);

// Whether a character can be seen within a text: no control, format or private one
// (categories Cc, Cf and Co of Unicode 15).
bool IsSeen(uint32_t number);

// A whole character for a message: as it is, unless that would not show it, and its number, such as
// "中" (U+4E2D).
std::string ShownCharacter(std::string_view character);

// INVALID_ARGUMENT naming the byte offset at which text stops being UTF-8.
absl::Status CheckUtf8(std::string_view text);

}  // namespace tvq

#endif  // TVQ_BASE_UTF8_H_
