// Messages from and to the bytes of a call.
//
// The services take raw bytes because gRPC answers a message that it cannot parse with a bare
// UNIMPLEMENTED. Text that is not UTF-8 is such a message; here it becomes INVALID_ARGUMENT with
// the name of the field.
#ifndef TVQ_SERVER_RPC_WIRE_WIRE_H_
#define TVQ_SERVER_RPC_WIRE_WIRE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tvq {

// INVALID_ARGUMENT names the field and the byte offset of text that is not UTF-8, or says that the
// bytes are no message of this type.
absl::Status ParseMessage(const grpc::ByteBuffer& bytes, google::protobuf::Message* message);

// INTERNAL if the message has more bytes than `max_bytes`, by default the most that protobuf can
// write.
absl::StatusOr<grpc::ByteBuffer> SerializeMessage(
    const google::protobuf::Message& message,
    size_t max_bytes = std::numeric_limits<int32_t>::max());

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_WIRE_H_
