#include "base/json_fields.h"

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

std::optional<int64_t> JsonFields::IntOf(const json& value, int64_t min, int64_t max) {
  // A number above int64's largest is unsigned and would wrap.
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
  if (!fits || value.get<int64_t>() < min || value.get<int64_t>() > max) return std::nullopt;
  return value.get<int64_t>();
}

bool JsonFields::Has(const char* name) const {
  return object_.is_object() && object_.contains(name);
}

int64_t JsonFields::Int(const char* name, int64_t min, int64_t max) {
  const json* field = Find(name);
  if (field == nullptr) return 0;
  const auto value = IntOf(*field, min, max);
  if (!value) Fail(name, absl::StrCat("must be an integer from ", min, " to ", max));
  return value.value_or(0);
}

std::vector<int64_t> JsonFields::Ints(const char* name, int64_t min, int64_t max) {
  const json* field = Find(name);
  if (field == nullptr) return {};
  std::vector<int64_t> values;
  bool good = field->is_array();
  for (size_t i = 0; good && i < field->size(); ++i) {
    const auto value = IntOf((*field)[i], min, max);
    good = value.has_value();
    values.push_back(value.value_or(0));
  }
  if (good) return values;
  Fail(name, absl::StrCat("must be an array of integers from ", min, " to ", max));
  return {};
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
