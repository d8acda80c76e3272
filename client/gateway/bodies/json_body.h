// A request's body as JSON, and its fields by name with the type they must have.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_JSON_BODY_H_
#define TVQ_CLIENT_GATEWAY_BODIES_JSON_BODY_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tvq::gateway {

using Json = nlohmann::json;

// An object of at most 32 levels. INVALID_ARGUMENT says at which byte it is no JSON; text that is
// not UTF-8 is none. Of a field that is given twice the last counts.
absl::StatusOr<Json> ParseObject(std::string_view body);

// Bytes of memory that ParseObject takes for `body` at most, with the texts that are read from it.
size_t ParsingMemory(std::string_view body);

// Reads fields of an object. One that is null counts as absent, an unknown one is ignored. The
// first that is wrong decides status(), INVALID_ARGUMENT that begins with its name; what is read
// from it and after it does not matter.
class Fields {
 public:
  // `object` must outlive the fields. `prefix` stands before names in errors: "stream_options.".
  explicit Fields(const Json& object, std::string prefix = "");

  bool Has(const char* name) const { return Find(name) != nullptr; }
  std::optional<std::string> String(const char* name);
  std::optional<bool> Bool(const char* name);
  // 3.0 is an integer, too.
  std::optional<int64_t> Int(const char* name);
  std::optional<int32_t> Int32(const char* name);
  // An integer of 64 bits with or without a sign, in two's complement.
  std::optional<uint64_t> Bits64(const char* name);
  std::optional<double> Number(const char* name);
  std::optional<float> Float(const char* name);
  // A list of integers.
  std::vector<int32_t> Ints(const char* name);
  // A string, or a list of them.
  std::vector<std::string> Strings(const char* name);
  // An object, or nullptr.
  const Json* Object(const char* name);
  // Anything; nullptr if it is absent or null.
  const Json* Find(const char* name) const;

  // Says that a field is wrong: `wanted` is such as "must be a string".
  void Fail(std::string_view name, std::string_view wanted);
  // What is wrong with the fields of an object that is one of these.
  void Take(const Fields& inner) {
    if (status_.ok()) status_ = inner.status_;
  }
  // Says also what the field is instead; `value`: null if it is left out.
  std::nullopt_t Wrong(std::string_view name, const Json* value, std::string_view wanted);

  const absl::Status& status() const { return status_; }

 private:
  const Json& object_;
  const std::string prefix_;
  absl::Status status_;
};

// `value` as an integer of 32 bits.
std::optional<int32_t> AsInt32(const Json& value);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_JSON_BODY_H_
