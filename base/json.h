#ifndef TVQ_BASE_JSON_H_
#define TVQ_BASE_JSON_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

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

}  // namespace tvq

#endif  // TVQ_BASE_JSON_H_
