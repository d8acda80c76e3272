#include "server/rpc/wire/wire.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "base/utf8.h"

namespace tvq {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

// Nesting of our messages is at most 4; deeper input is hostile or broken.
constexpr int kMaxDepth = 16;

std::string Joined(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string all;
  if (!bytes.Dump(&slices).ok()) return all;
  all.reserve(bytes.Length());
  for (const grpc::Slice& slice : slices) {
    all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return all;
}

// Of the first string field that is not UTF-8; OK: there is none.
absl::Status CheckTexts(const Descriptor& type, const UnknownFieldSet& fields,
                        const std::string& prefix, int depth) {
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    const FieldDescriptor* known = type.FindFieldByNumber(field.number());
    if (known == nullptr || field.type() != UnknownField::TYPE_LENGTH_DELIMITED) continue;
    const std::string& value = field.length_delimited();
    const std::string name = absl::StrCat(prefix, known->name());
    if (known->type() == FieldDescriptor::TYPE_STRING) {
      const absl::Status utf8 = CheckUtf8(value);
      if (!utf8.ok()) return Refused(Reason::kTextInvalid, name, MessageOf(utf8));
    } else if (known->type() == FieldDescriptor::TYPE_MESSAGE && depth < kMaxDepth) {
      UnknownFieldSet inner;
      if (!inner.ParseFromString(value)) {
        return Refused(Reason::kMessageInvalid, name, "is not a message");
      }
      auto status = CheckTexts(*known->message_type(), inner, absl::StrCat(name, "."), depth + 1);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseMessage(const grpc::ByteBuffer& bytes, google::protobuf::Message* message) {
  grpc::ByteBuffer copy = bytes;  // shares the slices; parsing empties the buffer
  if (grpc::SerializationTraits<google::protobuf::Message>::Deserialize(&copy, message).ok()) {
    return absl::OkStatus();
  }
  const Descriptor& type = *message->GetDescriptor();
  UnknownFieldSet fields;
  if (fields.ParseFromString(Joined(bytes))) {
    if (auto status = CheckTexts(type, fields, "", 0); !status.ok()) return status;
  }
  return Refused(Reason::kMessageInvalid, absl::StrCat("the request is not a ", type.full_name()));
}

absl::StatusOr<grpc::ByteBuffer> SerializeMessage(const google::protobuf::Message& message,
                                                  size_t max_bytes) {
  const std::string& type = message.GetDescriptor()->full_name();
  if (const size_t bytes = message.ByteSizeLong(); bytes > max_bytes) {
    return absl::InternalError(
        absl::StrCat("a ", type, " of ", bytes, " bytes cannot be sent, the limit is ", max_bytes));
  }
  grpc::ByteBuffer buffer;
  bool own = false;
  const grpc::Status status =
      grpc::SerializationTraits<google::protobuf::Message>::Serialize(message, &buffer, &own);
  if (!status.ok()) {
    return absl::InternalError(
        absl::StrCat("a ", type, " cannot be written: ", status.error_message()));
  }
  return buffer;
}

}  // namespace tvq
