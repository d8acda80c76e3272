#include "server/rpc/wire/field_ranges.h"

#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "tvq/v1/field.pb.h"

namespace tvq {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Of a single number that is set.
std::optional<double> NumberIn(const Message& message, const FieldDescriptor& field) {
  if (field.is_repeated()) return std::nullopt;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_FLOAT:
      return message.GetReflection()->GetFloat(message, &field);
    case FieldDescriptor::CPPTYPE_INT32:
      return message.GetReflection()->GetInt32(message, &field);
    default:
      return std::nullopt;
  }
}

}  // namespace

bool IsInRange(const FieldDescriptor& field, double value) {
  const v1::Field& told = field.options().GetExtension(v1::field);
  // The least float may be below an end that is no float.
  const bool is_float = field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT;
  const auto end = [&](double of) { return is_float ? double{static_cast<float>(of)} : of; };
  if (!std::isfinite(value)) return false;
  if (told.has_min() && value < end(told.min())) return false;
  if (told.above_min() && value == end(told.min())) return false;
  return !told.has_max() || value <= end(told.max());
}

std::string RangeOf(const FieldDescriptor& field) {
  const v1::Field& told = field.options().GetExtension(v1::field);
  const bool whole = field.cpp_type() != FieldDescriptor::CPPTYPE_FLOAT;
  if (told.has_min() && told.has_max()) {
    return absl::StrCat("in ", told.above_min() ? "(" : "[", told.min(), ", ", told.max(), "]");
  }
  if (told.has_min()) {
    return absl::StrCat(whole ? "at least " : "a finite number >= ", told.min());
  }
  return whole ? "" : "a finite number";
}

absl::Status CheckRanges(const Message& message) {
  std::vector<const FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  for (const FieldDescriptor* const field : set) {
    const std::optional<double> value = NumberIn(message, *field);
    if (!value || IsInRange(*field, *value)) continue;
    return Refused(Reason::kValueInvalid, field->name(),
                   absl::StrCat("value is ", *value, ", must be ", RangeOf(*field)));
  }
  return absl::OkStatus();
}

}  // namespace tvq
