#include "server/sessions/json_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

using nlohmann::json;

const json& Nothing() {
  static const json* const nothing = new json(json::array());
  return *nothing;
}

}  // namespace

const json* JsonFields::Find(const char* name) {
  if (!status_.ok()) return nullptr;
  const auto found = object_.find(name);  // of what is no object: end()
  if (found != object_.end()) return &*found;
  Fail(name, "is missing");
  return nullptr;
}

void JsonFields::Fail(const char* name, const std::string& wanted) {
  status_.Update(
      absl::InvalidArgumentError(absl::StrCat(where_, ": field \"", name, "\" ", wanted)));
}

int64_t JsonFields::Int(const char* name, int64_t min, int64_t max) {
  const json* field = Find(name);
  if (field == nullptr) return 0;
  // A number above int64's largest is unsigned and would wrap.
  const bool fits = field->is_number_integer() &&
                    (!field->is_number_unsigned() || field->get<uint64_t>() <= INT64_MAX);
  const int64_t value = fits ? field->get<int64_t>() : 0;
  if (fits && value >= min && value <= max) return value;
  Fail(name, absl::StrCat("must be an integer from ", min, " to ", max));
  return 0;
}

bool JsonFields::Bool(const char* name) {
  const json* field = Find(name);
  if (field == nullptr) return false;
  if (field->is_boolean()) return field->get<bool>();
  Fail(name, "must be true or false");
  return false;
}

std::string JsonFields::String(const char* name) {
  const json* field = Find(name);
  if (field == nullptr) return {};
  if (field->is_string()) return field->get<std::string>();
  Fail(name, "must be a string");
  return {};
}

const json& JsonFields::Array(const char* name) {
  const json* field = Find(name);
  if (field == nullptr) return Nothing();
  const auto is_object = [](const json& element) { return element.is_object(); };
  if (field->is_array() && std::all_of(field->begin(), field->end(), is_object)) return *field;
  Fail(name, "must be an array of objects");
  return Nothing();
}

const json& JsonFields::Object(const char* name) {
  const json* field = Find(name);
  if (field == nullptr) return Nothing();
  if (field->is_object()) return *field;
  Fail(name, "must be an object");
  return Nothing();
}

}  // namespace tvq
