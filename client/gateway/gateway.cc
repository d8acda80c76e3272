#include "client/gateway/gateway.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/gateway/api/answer.h"

namespace tvq::gateway {
namespace {

// A page of the gateway itself: "http://HOST" or "https://HOST" of the header Host.
bool IsSameOrigin(std::string_view origin, std::string_view host) {
  const size_t slashes = origin.find("://");
  return slashes != std::string_view::npos && origin.substr(slashes + 3) == host;
}

bool Changes(const Request& request) {
  return request.method != "GET" && request.method != "HEAD" && request.method != "OPTIONS";
}

}  // namespace

Gateway::Gateway(Services& services, std::vector<std::string> allowed_origins)
    : services_(services), allowed_origins_(std::move(allowed_origins)) {
  AddHealth(services_, &router_);
  AddModels(services_, &router_);
  AddCompletions(services_, &router_);
}

ConnectionHooks Gateway::Hooks() {
  return {
      .handler = [this](Exchange& exchange) { return Answer(exchange); },
      .error = [](int status,
                  std::string_view message) { return ErrorResponse(HttpError(status, message)); },
      .finished =
          [](const FinishedRequest& finished) {
            spdlog::debug("request {}: {} {} {} after {:.1f} ms", finished.request_id,
                          finished.request.method, finished.request.path, finished.status,
                          std::chrono::duration<double, std::milli>(finished.took).count());
          }};
}

bool Gateway::ApplyOrigin(Exchange& exchange) const {
  const Request& request = exchange.request();
  const std::string_view origin = request.Find("origin");
  if (origin.empty() || IsSameOrigin(origin, request.Find("host"))) return true;
  const bool any =
      std::find(allowed_origins_.begin(), allowed_origins_.end(), "*") != allowed_origins_.end();
  if (!any && std::find(allowed_origins_.begin(), allowed_origins_.end(), origin) ==
                  allowed_origins_.end()) {
    return false;
  }
  exchange.AddHeader({"Access-Control-Allow-Origin", any ? "*" : std::string(origin)});
  exchange.AddHeader({"Vary", "Origin"});
  exchange.AddHeader({"Access-Control-Expose-Headers",
                      "X-Request-Id, Retry-After, retry-after-ms, Content-Disposition"});
  return true;
}

asio::awaitable<void> Gateway::Answer(Exchange& exchange) {
  const Request& request = exchange.request();
  const bool may_call = ApplyOrigin(exchange);
  const Router::Match match = router_.Find(request.method, request.path);
  exchange.set_route(match.pattern);
  if (match.pattern.empty() && request.path != "*") {
    co_await exchange.Respond(ErrorResponse(HttpError(404, "there is nothing at this path")));
  } else if (request.method == "OPTIONS") {
    Response response{.status = 204, .content_type = "", .headers = {{"Allow", match.allow}}};
    if (may_call && !request.Find("access-control-request-method").empty()) {
      response.headers.push_back({"Access-Control-Allow-Methods", match.allow});
      response.headers.push_back({"Access-Control-Allow-Headers",
                                  "Authorization, Content-Type, Idempotency-Key, X-Request-Id"});
      response.headers.push_back({"Access-Control-Max-Age", "600"});
    }
    co_await exchange.Respond(std::move(response));
  } else if (!may_call && Changes(request)) {
    co_await exchange.Respond(ErrorResponse(HttpError(
        403, "origin: pages of this origin may not call; --allowed-origins names those that may")));
  } else if (match.handler == nullptr) {
    Response response = ErrorResponse(
        HttpError(405, absl::StrCat("this path knows the methods ", match.allow, " only")));
    response.headers.push_back({"Allow", match.allow});
    co_await exchange.Respond(std::move(response));
  } else if (match.malformed) {
    co_await exchange.Respond(ErrorResponse(
        HttpError(400, "the path has a % that two hexadecimal digits do not follow")));
  } else {
    co_await (*match.handler)(exchange, match.fields);
  }
}

}  // namespace tvq::gateway
