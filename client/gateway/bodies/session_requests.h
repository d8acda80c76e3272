// Bodies and queries of /v1/sessions, /v1/server and what reads and writes tokens. All answer
// INVALID_ARGUMENT that names the field.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_SESSION_REQUESTS_H_
#define TVQ_CLIENT_GATEWAY_BODIES_SESSION_REQUESTS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/gateway/bodies/conversation_body.h"
#include "tvq/v1/generation.pb.h"
#include "tvq/v1/model.pb.h"
#include "tvq/v1/session.pb.h"

namespace tvq::gateway {

// What every call on a session has beside its body.
struct SessionTarget {
  std::string id;
  std::string idempotency_key;  // of the header
};

// Fields of a query by name; of one that is given twice the last counts.
using QueryMap = std::map<std::string, std::string, std::less<>>;

// An empty body is an empty object.
absl::StatusOr<v1::CreateSessionRequest> ParseCreate(std::string_view body,
                                                     const std::string& idempotency_key);
absl::StatusOr<v1::AppendSessionRequest> ParseAppend(std::string_view body,
                                                     const SessionTarget& target);
absl::StatusOr<v1::ForkSessionRequest> ParseFork(std::string_view body,
                                                 const SessionTarget& target);
absl::StatusOr<v1::MarkSessionRequest> ParseMark(std::string_view body,
                                                 const SessionTarget& target);
absl::StatusOr<v1::RewindSessionRequest> ParseRewind(std::string_view body,
                                                     const SessionTarget& target);
absl::StatusOr<v1::SaveSessionRequest> ParseSave(std::string_view body,
                                                 const SessionTarget& target);
// With expected_version and durability in the query.
absl::StatusOr<v1::SessionCall> ParseCall(const QueryMap& query, const SessionTarget& target);

absl::StatusOr<v1::GetSessionRequest> ParseGet(const QueryMap& query, const std::string& id);
absl::StatusOr<v1::ListSessionsRequest> ParseList(const QueryMap& query);
absl::StatusOr<v1::CreateSessionRequest> ParseImport(const QueryMap& query,
                                                     const std::string& idempotency_key);

absl::StatusOr<v1::GetServerInfoRequest> ParseServerInfo(const QueryMap& query);

// Of a text, or of a conversation, of which the model decides how it is given.
struct TokenizeBody {
  v1::TokenizeRequest request;
  std::optional<BodyConversation> conversation;

  size_t MemoryBytes() const {
    return request.SpaceUsedLong() + (conversation ? conversation->MemoryBytes() : 0);
  }
};
absl::StatusOr<TokenizeBody> ParseTokenize(std::string_view body);
absl::StatusOr<v1::DetokenizeRequest> ParseDetokenize(std::string_view body);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_SESSION_REQUESTS_H_
