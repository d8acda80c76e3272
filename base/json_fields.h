// Fields of a JSON object that is not trusted.
#ifndef TVQ_BASE_JSON_FIELDS_H_
#define TVQ_BASE_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tvq {

// Every field asked for must be there, of its type and in its range; the first one that is not
// becomes the status, and from then on what is returned is empty. So reading an object is a list of
// fields and one check.
class JsonFields {
 public:
  // `where` opens the messages. `object` must outlive this; what is no object has no fields.
  JsonFields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  // Whether a field that may be missing is there.
  bool Has(const char* name) const;

  int64_t Int(const char* name, int64_t min, int64_t max);
  bool Bool(const char* name);
  std::string String(const char* name);
  std::vector<int64_t> Ints(const char* name, int64_t min, int64_t max);
  // Of objects.
  const nlohmann::json& Array(const char* name);
  const nlohmann::json& Object(const char* name);

  // Makes the field `name` an error.
  void Fail(const char* name, const std::string& wanted);
  void Update(const absl::Status& status) { status_.Update(status); }

  const absl::Status& status() const { return status_; }

 private:
  // Null after an error.
  const nlohmann::json* Find(const char* name);
  // Nothing for what is no integer of the range.
  static std::optional<int64_t> IntOf(const nlohmann::json& value, int64_t min, int64_t max);

  const nlohmann::json& object_;
  const std::string where_;
  absl::Status status_;
};

}  // namespace tvq

#endif  // TVQ_BASE_JSON_FIELDS_H_
