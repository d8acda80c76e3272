#include "client/gateway/api/answer.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/refusal.h"

namespace tvq::gateway {
namespace {

constexpr size_t kMaxKeyBytes = 4096;
constexpr double kMaxSeconds = 1e9;  // and what is longer is no limit either

ApiError TooLarge(size_t max_bytes) {
  return HttpError(
      413, absl::StrCat("the body has more than ", max_bytes, " bytes, this gateway's limit"));
}

}  // namespace

absl::StatusOr<std::optional<std::chrono::milliseconds>> TimeoutOf(const Request& request) {
  const std::string_view text = request.Find("x-request-timeout");
  if (text.empty()) return std::nullopt;
  double seconds = 0;
  if (!absl::SimpleAtod({text.data(), text.size()}, &seconds) || !(seconds > 0)) {
    return Refused(Reason::kValueInvalid, "x-request-timeout",
                   "must be a number of seconds above 0");
  }
  return std::chrono::milliseconds(
      static_cast<int64_t>(std::ceil(std::min(seconds, kMaxSeconds) * 1000)));
}

CallHeaders HeadersOf(const Exchange& exchange, const std::string& session_id) {
  CallHeaders headers;
  headers.session_id = session_id;
  headers.request_id = exchange.request_id();
  headers.peer = exchange.peer();
  // gRPC ends the process over a value that is not printable, and its servers refuse metadata of
  // more than 8 KiB; such a key is unknown anyway, and the server says so.
  const std::string_view key = exchange.request().Find("authorization");
  const bool fits = key.size() <= kMaxKeyBytes && std::all_of(key.begin(), key.end(), [](char c) {
                      return c >= ' ' && c <= '~';
                    });
  headers.authorization = fits ? std::string(key) : "Bearer ?";
  const auto timeout = TimeoutOf(exchange.request());
  if (timeout.ok() && *timeout) headers.deadline = exchange.started() + **timeout;
  return headers;
}

Response ErrorResponse(const ApiError& error) {
  Response response = JsonResponse(ToJson(error), error.status);
  if (error.retry_after_ms) {
    const int64_t ms = *error.retry_after_ms;
    response.headers.push_back({"Retry-After", std::to_string((ms + 999) / 1000)});
    response.headers.push_back({"retry-after-ms", std::to_string(ms)});
  }
  if (error.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

Response JsonResponse(std::string json, int status) {
  return {.status = status, .content_type = "application/json", .body = std::move(json)};
}

ApiError BodyError(const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status)) return HttpError(408, std::string(status.message()));
  return ToApiError(status);
}

asio::awaitable<std::optional<std::string>> ReadBody(Exchange& exchange, size_t max_bytes) {
  if (exchange.content_length().value_or(0) > max_bytes) {
    co_await exchange.Respond(ErrorResponse(TooLarge(max_bytes)));
    co_return std::nullopt;
  }
  absl::StatusOr<std::string> body = co_await exchange.ReadPiece(max_bytes + 1);
  if (!body.ok()) {
    if (!exchange.gone()) co_await exchange.Respond(ErrorResponse(BodyError(body.status())));
    co_return std::nullopt;
  }
  if (body->size() > max_bytes) {
    co_await exchange.Respond(ErrorResponse(TooLarge(max_bytes)));
    co_return std::nullopt;
  }
  co_return *std::move(body);
}

}  // namespace tvq::gateway
