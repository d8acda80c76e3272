#include "client/gateway/gateway.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "base/refusal.h"
#include "client/gateway/api/answer.h"
#include "client/gateway/bodies/json_text.h"
#include "client/gateway/static_files.h"

namespace tvq::gateway {
namespace {

// What cannot be put into a message of gRPC, into metadata or a deadline; OK if all can.
absl::Status CheckHead(const Request& request, const Router::Match& match) {
  if (match.malformed) {
    return Refused(Reason::kValueInvalid,
                   "the path has a % that two hexadecimal digits do not follow");
  }
  QueryFields query;
  if (!ParseQuery(request.query, &query)) {
    return Refused(Reason::kValueInvalid,
                   "the query has a % that two hexadecimal digits do not follow");
  }
  const bool is_text = std::all_of(match.fields.begin(), match.fields.end(),
                                   [](const auto& field) { return IsUtf8(field.second); }) &&
                       std::all_of(query.begin(), query.end(),
                                   [](const auto& field) { return IsUtf8(field.second); });
  if (!is_text) return Refused(Reason::kTextInvalid, "path and query must be UTF-8");
  if (!IsUtf8(request.Find("idempotency-key"))) {
    return Refused(Reason::kTextInvalid, "idempotency-key", "must be UTF-8");
  }
  return TimeoutOf(request).status();
}

// Whether the body is sent as it is.
bool IsPlain(const Request& request) {
  return std::all_of(request.headers.begin(), request.headers.end(), [](const Header& header) {
    return !absl::EqualsIgnoreCase(header.name, "content-encoding") || header.value.empty() ||
           absl::EqualsIgnoreCase(header.value, "identity");
  });
}

bool Changes(const Request& request) {
  return request.method != "GET" && request.method != "HEAD" && request.method != "OPTIONS";
}

// For requests of a client that gives up many: most of those are given up within it.
constexpr std::chrono::milliseconds kMoment{200};

// False: the client makes no call on the server, and has its answer if it is there.
asio::awaitable<bool> Admit(Exchange& exchange) {
  const Peer::Standing standing = exchange.peer()->StandingAt(std::chrono::steady_clock::now());
  if (standing == Peer::Standing::kBad) {
    co_await exchange.Respond(ErrorResponse(HttpError(
        429, "too many requests of this address were given up as soon as they began; try again")));
    co_return false;
  }
  if (standing == Peer::Standing::kGood) co_return true;
  const auto moment = std::make_shared<asio::steady_timer>(exchange.executor(), kMoment);
  exchange.OnHangUp([moment] { moment->cancel(); });
  while (!exchange.gone() && moment->expiry() > std::chrono::steady_clock::now()) {
    co_await moment->async_wait(asio::as_tuple(asio::use_awaitable));
  }
  co_return !exchange.gone();
}

bool AsksServer(std::string_view pattern) {
  return pattern != "/health" && pattern != "/v1/health/live" && pattern != "/version" &&
         pattern != "/metrics";
}

}  // namespace

Gateway::Gateway(Services& services, Origins origins)
    : services_(services), origins_(std::move(origins)) {
  AddHealth(services_, &router_);
  AddModels(services_, &router_);
  AddCompletions(services_, &router_);
  AddChat(services_, &router_);
  AddEmbeddings(services_, &router_);
  AddTokens(services_, &router_);
  AddSnapshots(services_, &router_);  // before /v1/sessions/{id}
  AddSessions(services_, &router_);
  router_.Add("GET", "/metrics",
              [this](Exchange& exchange, const PathFields&) { return ShowMetrics(exchange); });
}

asio::awaitable<void> Gateway::ShowMetrics(Exchange& exchange) {
  if (connections_) services_.metrics.Connections(connections_());
  Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = services_.metrics.Text();
  co_await exchange.Respond(std::move(response));
}

ConnectionHooks Gateway::Hooks() {
  return {
      .handler = [this](Exchange& exchange) { return Answer(exchange); },
      .error = [](int status,
                  std::string_view message) { return ErrorResponse(HttpError(status, message)); },
      .finished =
          [this](const FinishedRequest& finished) {
            services_.metrics.Request(finished.route, finished.request.method, finished.status,
                                      finished.took, finished.bytes_sent);
            spdlog::debug("request {}: {} {} {} after {:.1f} ms", finished.request_id,
                          finished.request.method, finished.request.path, finished.status,
                          std::chrono::duration<double, std::milli>(finished.took).count());
          }};
}

bool Gateway::ApplyOrigin(Exchange& exchange) const {
  const std::string_view origin = exchange.request().Find("origin");
  const Origins::Page page = origins_.Of(origin, exchange.request().Find("host"));
  if (origins_.vary()) exchange.AddHeader({"Vary", "Origin"});
  if (page == Origins::Page::kAllowed) {
    exchange.AddHeader({"Access-Control-Allow-Origin", origins_.any() ? "*" : std::string(origin)});
    exchange.AddHeader({"Access-Control-Expose-Headers",
                        "X-Request-Id, Retry-After, retry-after-ms, Content-Disposition"});
  }
  return page != Origins::Page::kForeign;
}

asio::awaitable<void> Gateway::Answer(Exchange& exchange) {
  const Request& request = exchange.request();
  const bool may_call = ApplyOrigin(exchange);
  if (origins_.IsRebound(request.Find("host"))) {
    co_await exchange.Respond(ErrorResponse(HttpError(
        403, absl::StrCat("host: ", Quoted(request.Find("host")),
                          " is no name of this gateway; --allowed-origins can name it"))));
    co_return;
  }
  Router::Match match = router_.Find(request.method, request.path);
  if (match.pattern.empty()) match.allow = "GET, HEAD, OPTIONS";  // of a file
  exchange.set_route(match.pattern);
  std::optional<Response> file;
  if (match.pattern.empty()) file = ServeStatic(request);
  if (file && (request.method == "GET" || request.method == "HEAD")) {
    exchange.set_route("file");
    co_await exchange.Respond(*std::move(file));
  } else if (match.pattern.empty() && !file && request.path != "*") {
    co_await exchange.Respond(ErrorResponse(
        HttpError(404, absl::StrCat("there is nothing at the path ", Quoted(request.path),
                                    "; /openapi.json describes all paths"))));
  } else if (request.method == "OPTIONS") {
    Response response{.status = 204, .content_type = "", .headers = {{"Allow", match.allow}}};
    if (may_call && !request.Find("access-control-request-method").empty()) {
      response.headers.push_back({"Access-Control-Allow-Methods", match.allow});
      // All: OpenAI's client in a page sends a dozen of its own. But * never covers Authorization.
      response.headers.push_back({"Access-Control-Allow-Headers", "*, Authorization"});
      response.headers.push_back({"Access-Control-Max-Age", "600"});
    }
    co_await exchange.Respond(std::move(response));
  } else if (!may_call && Changes(request)) {
    co_await exchange.Respond(ErrorResponse(
        HttpError(403, absl::StrCat("origin: pages of ", Quoted(request.Find("origin")),
                                    " may not call; --allowed-origins names those that may"))));
  } else if (match.handler == nullptr) {
    Response response = ErrorResponse(
        HttpError(405, absl::StrCat("the path ", Quoted(request.path), " does not take ",
                                    Quoted(request.method), ", only ", match.allow)));
    response.headers.push_back({"Allow", match.allow});
    co_await exchange.Respond(std::move(response));
  } else if (const absl::Status head = CheckHead(request, match); !head.ok()) {
    co_await exchange.Respond(ErrorResponse(ToApiError(head)));
  } else if (!IsPlain(request)) {
    Response response = ErrorResponse(HttpError(
        415, "content-encoding: must be identity or left out, for bodies are not decompressed"));
    response.headers.push_back({"Accept-Encoding", "identity"});
    co_await exchange.Respond(std::move(response));
  } else {
    if (AsksServer(match.pattern)) {
      const bool admitted = co_await Admit(exchange);
      if (!admitted) co_return;
    }
    co_await (*match.handler)(exchange, match.fields);
  }
}

}  // namespace tvq::gateway
