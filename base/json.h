#ifndef TVQ_BASE_JSON_H_
#define TVQ_BASE_JSON_H_

#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace tvq {

// What a document may contain at most, so that a hostile one cannot exhaust stack or memory.
struct JsonLimits {
  size_t depth = 16;          // nested objects and arrays
  size_t values = 1'000'000;  // objects, arrays, strings, numbers, ... in all
};

// Parses a whole document whose outermost value is an object. A key given twice in one object is an
// error. All errors are INVALID_ARGUMENT and name `source` and, where known, the byte.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, std::string_view source,
                                               const JsonLimits& limits);

// Characters that some readers take for the end of a line, and the escapes by which JSON can write
// them in strings.
inline constexpr std::array<std::pair<const char*, const char*>, 3> kJsonLineEnds = {
    {{"\xC2\x85", "\\u0085"}, {"\xE2\x80\xA8", "\\u2028"}, {"\xE2\x80\xA9", "\\u2029"}}};

// A document without line feeds as a line for every reader: the same, with none of these.
std::string JsonLine(const std::string& document);

}  // namespace tvq

#endif  // TVQ_BASE_JSON_H_
