// Reads bodies that are JSON.
#ifndef TVQ_CLIENT_GATEWAY_API_READ_JSON_H_
#define TVQ_CLIENT_GATEWAY_API_READ_JSON_H_

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/gateway/api/answer.h"
#include "client/gateway/api/aside.h"
#include "client/gateway/api/services.h"
#include "client/gateway/bodies/json_body.h"

namespace tvq::gateway {

// Bytes of memory that a request takes until its calls have begun.
template <typename Request>
size_t RequestMemory(const Request& request) {
  if constexpr (requires { request.SpaceUsedLong(); }) {
    return request.SpaceUsedLong();
  } else {
    return request.MemoryBytes();
  }
}

inline absl::Status NoMemoryToRead(const Exchange& exchange) {
  return absl::ResourceExhaustedError(
      absl::StrCat(exchange.MemoryFull(), ", or with fewer values in the body"));
}

// What `parse` makes of the whole body, an absl::StatusOr of it, beside the loop where that takes
// long. Nothing if an error was answered instead, or the client has gone. The exchange holds the
// memory of what it gives.
template <typename Parse>
asio::awaitable<std::optional<typename std::invoke_result_t<Parse, std::string_view>::value_type>>
ReadJson(Services& services, Exchange& exchange, Parse parse,
         ApiError (*to_error)(const absl::Status&) = ToApiError) {
  std::optional<std::string> body = co_await ReadBody(exchange, services.max_body_bytes);
  if (!body) co_return std::nullopt;
  const auto measure = [&] { return ParsingMemory(*body); };
  const size_t memory = co_await Aside(services.beside, exchange, body->size(), measure);
  if (!exchange.Hold(memory)) {
    co_await exchange.Respond(ErrorResponse(to_error(NoMemoryToRead(exchange))));
    co_return std::nullopt;
  }
  const auto read = [&] { return parse(std::string_view(*body)); };
  auto request = co_await Aside(services.beside, exchange, body->size(), read);
  body.reset();
  exchange.BodyDone();
  if (!request.ok()) {
    co_await exchange.Respond(ErrorResponse(to_error(request.status())));
    co_return std::nullopt;
  }
  if (!exchange.HoldInstead(RequestMemory(*request))) {
    co_await exchange.Respond(ErrorResponse(to_error(NoMemoryToRead(exchange))));
    co_return std::nullopt;
  }
  co_return *std::move(request);
}

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_READ_JSON_H_
