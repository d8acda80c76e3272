// Between absl::Status, which the server uses inside, and gRPC's.
#ifndef TVQ_SERVER_RPC_WIRE_STATUS_H_
#define TVQ_SERVER_RPC_WIRE_STATUS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "base/refusal.h"

namespace tvq {

// A status travels in the response's metadata, for which clients allow 8 KiB by default. Its
// message may take three times its bytes there, and in its details twice 4/3 of them.
inline constexpr size_t kMaxStatusMessageBytes = 1280;

// Milliseconds to wait before the next try; -1: do not.
inline constexpr char kRetryPushbackTrailer[] = "grpc-retry-pushback-ms";

// The codes of both are the same numbers; the message is kept, if it is not too long. What
// RefusalOf finds goes along as details (proto/tvq/v1/refusal.proto).
grpc::Status ToGrpc(const absl::Status& status);

// The value of the trailer grpc-retry-pushback-ms; nothing unless the code is RESOURCE_EXHAUSTED.
std::optional<int64_t> RetryPushbackMs(const Refusal& refusal);

// Adds the trailer, if one belongs to the status. Before Finish.
void AddRetryPushback(const absl::Status& status, grpc::ServerContextBase* context);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_STATUS_H_
