// Between absl::Status, which the server uses inside, and gRPC's.
#ifndef TVQ_SERVER_RPC_WIRE_STATUS_H_
#define TVQ_SERVER_RPC_WIRE_STATUS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace tvq {

// Milliseconds a client should wait before it tries a refused request again. About the time in
// which a place becomes free under load; a client that backs off exponentially may wait longer.
inline constexpr int64_t kRetryPushbackMs = 1000;

// A status travels in the response's metadata, for which clients allow 8 KiB by default; its
// message may take three times its bytes there.
inline constexpr size_t kMaxStatusMessageBytes = 2048;

// Milliseconds to wait before the next try; -1: do not.
inline constexpr char kRetryPushbackTrailer[] = "grpc-retry-pushback-ms";

// The codes of both are the same numbers; the message is kept, if it is not too long.
grpc::Status ToGrpc(const absl::Status& status);

// The value of the trailer grpc-retry-pushback-ms that belongs to a status with which the engine
// refused a request; nothing unless that is RESOURCE_EXHAUSTED. -1, do not try again, if the
// request would not fit an idle server either.
std::optional<int64_t> RetryPushbackMs(const absl::Status& status, bool fits_idle_server);

// Adds the trailer, if one belongs to the status. Before Finish.
void AddRetryPushback(const absl::Status& status, bool fits_idle_server,
                      grpc::ServerContextBase* context);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_STATUS_H_
