// /v1/sessions and what lies below it, snapshots apart.
#include <memory>
#include <string>
#include <utility>

#include "client/gateway/api/answer.h"
#include "client/gateway/api/models_json.h"
#include "client/gateway/api/read_json.h"
#include "client/gateway/api/services.h"
#include "client/gateway/api/session_target.h"
#include "client/gateway/api/whole_reply.h"
#include "client/gateway/bodies/choice.h"
#include "client/gateway/bodies/session_requests.h"
#include "client/gateway/upstream/unary_call.h"
#include "client/json/session_json.h"

namespace tvq::gateway {
namespace {

using client::ToJson;

using Sessions = v1::SessionService::Stub;

template <typename Request, typename Reply>
using Method = std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> (Sessions::*)(
    grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

// The session that a call is on; empty for those that are on none.
template <typename Request>
std::string SessionIdOf(const Request& request) {
  if constexpr (requires { request.session().session_id(); }) {
    return request.session().session_id();
  } else if constexpr (requires { request.session_id(); }) {
    return request.session_id();
  } else {
    return {};
  }
}

// Calls `method` with what was parsed, and answers the JSON that `write` makes of the reply.
template <typename Request, typename Reply, typename Write>
asio::awaitable<void> Call(Services& services, Exchange& exchange, absl::StatusOr<Request> request,
                           Method<Request, Reply> method, Write write, int status = 200,
                           size_t memory_per_byte = kObjectsMemory) {
  if (!request.ok()) {
    co_await exchange.Respond(ErrorResponse(ToApiError(request.status())));
    co_return;
  }
  const CallHeaders headers = HeadersOf(exchange, SessionIdOf(*request));
  absl::StatusOr<Reply> reply = co_await Unary<Request, Reply>(
      exchange, headers, services.upstream.Next(), method, *std::move(request));
  if (!reply.ok()) {
    co_await exchange.Respond(ErrorResponse(SessionError(reply.status())));
    co_return;
  }
  co_await RespondWith(services, exchange, *std::move(reply), memory_per_byte, write, status);
}

// The same for a request that `parse` makes of the body: (body, target).
template <typename Request, typename Reply, typename Write>
asio::awaitable<void> CallWithBody(Services& services, Exchange& exchange, SessionTarget target,
                                   absl::StatusOr<Request> (*parse)(std::string_view,
                                                                    const SessionTarget&),
                                   Method<Request, Reply> method, Write write) {
  const auto read = [&](std::string_view body) { return parse(body, target); };
  std::optional<Request> request = co_await ReadJson(services, exchange, read);
  if (!request) co_return;
  co_await Call<Request, Reply>(services, exchange, *std::move(request), method, write);
}

const auto kPosition = [](const auto& reply) { return Dump(ToJson(reply.session())); };

template <typename Reply>
OrderedJson ListOf(const Reply& reply) {
  OrderedJson json;
  json["object"] = "list";
  json["data"] = OrderedJson::array();
  for (const v1::Session& session : reply.sessions()) json["data"].push_back(ToJson(session));
  return json;
}

std::string ForksOf(const v1::ForkSessionResponse& reply) { return Dump(ListOf(reply)); }

std::string PageOf(const v1::ListSessionsResponse& reply) {
  OrderedJson json = ListOf(reply);
  json["has_more"] = !reply.next_page_token().empty();
  json["next"] =
      reply.next_page_token().empty() ? OrderedJson() : OrderedJson(reply.next_page_token());
  return Dump(json);
}

// The ids as text of their own: as objects they take four times as much.
std::string WithTranscript(const v1::GetSessionResponse& reply) {
  std::string json = Dump(ToJson(reply.session()));
  json.back() = ',';
  json += R"("transcript":)";
  AppendIds({reply.transcript().data(), static_cast<size_t>(reply.transcript_size())}, &json);
  json.push_back('}');
  return json;
}

std::string Appended(const v1::AppendSessionResponse& reply) {
  OrderedJson json;
  json["session"] = ToJson(reply.session());
  json["tokens"] = reply.tokens();
  return Dump(json);
}

asio::awaitable<void> Create(Services& services, Exchange& exchange) {
  const auto parse = [&](std::string_view body) {
    return ParseCreate(body, std::string(exchange.request().Find("idempotency-key")));
  };
  auto request = co_await ReadJson(services, exchange, parse);
  if (!request) co_return;
  co_await Call<v1::CreateSessionRequest, v1::CreateSessionResponse>(
      services, exchange, *std::move(request), &Sessions::PrepareAsyncCreateSession, kPosition,
      201);
}

asio::awaitable<void> List(Services& services, Exchange& exchange) {
  co_await Call<v1::ListSessionsRequest, v1::ListSessionsResponse>(
      services, exchange, ParseList(QueryOf(exchange)), &Sessions::PrepareAsyncListSessions,
      PageOf);
}

asio::awaitable<void> Get(Services& services, Exchange& exchange, std::string id) {
  auto request = ParseGet(QueryOf(exchange), id);
  const bool transcript = request.ok() && request->include_transcript();
  const auto write = [transcript](const v1::GetSessionResponse& reply) {
    return transcript ? WithTranscript(reply) : kPosition(reply);
  };
  co_await Call<v1::GetSessionRequest, v1::GetSessionResponse>(
      services, exchange, std::move(request), &Sessions::PrepareAsyncGetSession, write, 200,
      transcript ? kIdsMemory : kObjectsMemory);
}

// The call in the query as a request of its own.
template <typename Request>
absl::StatusOr<Request> FromQuery(Exchange& exchange, const SessionTarget& target) {
  auto call = ParseCall(QueryOf(exchange), target);
  if (!call.ok()) return call.status();
  Request request;
  *request.mutable_session() = *std::move(call);
  return request;
}

asio::awaitable<void> Delete(Services& services, Exchange& exchange, SessionTarget target) {
  const auto deleted = [id = target.id](const v1::DeleteSessionResponse&) {
    OrderedJson json;
    json["id"] = id;
    json["object"] = "session.deleted";
    json["deleted"] = true;
    return Dump(json);
  };
  auto request = FromQuery<v1::DeleteSessionRequest>(exchange, target);
  co_await Call<v1::DeleteSessionRequest, v1::DeleteSessionResponse>(
      services, exchange, std::move(request), &Sessions::PrepareAsyncDeleteSession, deleted);
}

asio::awaitable<void> Unmark(Services& services, Exchange& exchange, SessionTarget target,
                             std::string name) {
  auto request = FromQuery<v1::UnmarkSessionRequest>(exchange, target);
  if (request.ok()) request->set_name(name);
  co_await Call<v1::UnmarkSessionRequest, v1::UnmarkSessionResponse>(
      services, exchange, std::move(request), &Sessions::PrepareAsyncUnmarkSession, kPosition);
}

template <typename Request, typename Reply, typename Write>
RouteHandler WithBody(Services& services,
                      absl::StatusOr<Request> (*parse)(std::string_view, const SessionTarget&),
                      Method<Request, Reply> method, Write write) {
  return [&services, parse, method, write](Exchange& exchange, const PathFields& path) {
    return CallWithBody<Request, Reply>(services, exchange, TargetOf(exchange, path), parse, method,
                                        write);
  };
}

}  // namespace

void AddSessions(Services& services, Router* router) {
  router->Add("POST", "/v1/sessions", [&services](Exchange& exchange, const PathFields&) {
    return Create(services, exchange);
  });
  router->Add("GET", "/v1/sessions", [&services](Exchange& exchange, const PathFields&) {
    return List(services, exchange);
  });
  router->Add("GET", "/v1/sessions/{id}", [&services](Exchange& exchange, const PathFields& path) {
    return Get(services, exchange, TargetOf(exchange, path).id);
  });
  router->Add("DELETE", "/v1/sessions/{id}",
              [&services](Exchange& exchange, const PathFields& path) {
                return Delete(services, exchange, TargetOf(exchange, path));
              });
  router->Add("POST", "/v1/sessions/{id}/append",
              WithBody<v1::AppendSessionRequest, v1::AppendSessionResponse>(
                  services, ParseAppend, &Sessions::PrepareAsyncAppendSession, Appended));
  router->Add("POST", "/v1/sessions/{id}/fork",
              WithBody<v1::ForkSessionRequest, v1::ForkSessionResponse>(
                  services, ParseFork, &Sessions::PrepareAsyncForkSession, ForksOf));
  router->Add("POST", "/v1/sessions/{id}/marks",
              WithBody<v1::MarkSessionRequest, v1::MarkSessionResponse>(
                  services, ParseMark, &Sessions::PrepareAsyncMarkSession, kPosition));
  router->Add("DELETE", "/v1/sessions/{id}/marks/{name}",
              [&services](Exchange& exchange, const PathFields& path) {
                return Unmark(services, exchange, TargetOf(exchange, path),
                              path.find("name")->second);
              });
  router->Add("POST", "/v1/sessions/{id}/rewind",
              WithBody<v1::RewindSessionRequest, v1::RewindSessionResponse>(
                  services, ParseRewind, &Sessions::PrepareAsyncRewindSession, kPosition));
  router->Add("POST", "/v1/sessions/{id}/save",
              WithBody<v1::SaveSessionRequest, v1::SaveSessionResponse>(
                  services, ParseSave, &Sessions::PrepareAsyncSaveSession, kPosition));
}

}  // namespace tvq::gateway
