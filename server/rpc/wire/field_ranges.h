// The ranges of numbers that field.proto tells of requests' fields.
#ifndef TVQ_SERVER_RPC_WIRE_FIELD_RANGES_H_
#define TVQ_SERVER_RPC_WIRE_FIELD_RANGES_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"

namespace tvq {

// kValueInvalid for the first number of the message that is set and out of its field's range, with
// the field's name and its range.
absl::Status CheckRanges(const google::protobuf::Message& message);

// "in (0, 1]", "at least -1", "a finite number >= 0"; empty: the field has no range.
std::string RangeOf(const google::protobuf::FieldDescriptor& field);

// Whether the value is one of the range. False for NaN.
bool IsInRange(const google::protobuf::FieldDescriptor& field, double value);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_FIELD_RANGES_H_
