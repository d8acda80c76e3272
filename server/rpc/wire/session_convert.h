// Between the wire's messages about sessions and the store's terms. Errors are INVALID_ARGUMENT and
// name the field.
#ifndef TVQ_SERVER_RPC_WIRE_SESSION_CONVERT_H_
#define TVQ_SERVER_RPC_WIRE_SESSION_CONVERT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/wire/request_hash.h"
#include "server/sessions/session_store.h"
#include "tvq/v1/session.pb.h"

namespace tvq {

// The most bytes of a snapshot in one message, in either direction.
inline constexpr int64_t kSnapshotChunkBytes = 1 << 20;

// `request_hash` is that of the request which `message` is part of.
absl::StatusOr<SessionCall> ToSessionCall(const v1::SessionCall& message, uint64_t request_hash,
                                          const std::string& owner);
// Of a request with a field `session`.
template <typename Request>
absl::StatusOr<SessionCall> ToSessionCall(const Request& request, const std::string& owner) {
  return ToSessionCall(request.session(), HashOfCall(request), owner);
}
absl::StatusOr<CreateOptions> ToCreateOptions(const v1::CreateSessionRequest& message);
absl::StatusOr<ForkOptions> ToForkOptions(const v1::ForkSessionRequest& message);
// The default if the message does not say.
absl::StatusOr<int64_t> ToPageSize(const v1::ListSessionsRequest& message);
// `field` is what the message calls it.
absl::Status CheckSessionId(const std::string& id, const char* field);
absl::Status CheckMarkName(const std::string& name, const char* field);
absl::Status CheckChunk(const std::string& chunk);

void ToProto(const SessionView& view, v1::Session* message);
v1::SessionPosition PositionOf(const SessionRecord& record);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_SESSION_CONVERT_H_
