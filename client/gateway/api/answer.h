// Between HTTP and calls on the server.
#ifndef TVQ_CLIENT_GATEWAY_API_ANSWER_H_
#define TVQ_CLIENT_GATEWAY_API_ANSWER_H_

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/gateway/bodies/errors.h"
#include "client/gateway/http/exchange.h"
#include "client/gateway/upstream/call.h"

namespace tvq::gateway {

// What X-Request-Timeout allows for all of a request, from its first byte to the last of its
// answer; nothing if there is no such header. INVALID_ARGUMENT unless it is seconds above 0.
absl::StatusOr<std::optional<std::chrono::milliseconds>> TimeoutOf(const Request& request);

// The key, the request id and the time left of the exchange, and the session that the call is on,
// if any.
CallHeaders HeadersOf(const Exchange& exchange, const std::string& session_id = {});

Response ErrorResponse(const ApiError& error);
Response JsonResponse(std::string json, int status = 200);

// Of a body that could not be read.
ApiError BodyError(const absl::Status& status);

// The whole body; nothing if an error was answered instead, or the client has gone.
asio::awaitable<std::optional<std::string>> ReadBody(Exchange& exchange, size_t max_bytes);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_ANSWER_H_
