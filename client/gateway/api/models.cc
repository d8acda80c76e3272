// GET /v1/models, /v1/models/{name}, /v1/server
#include <utility>

#include "client/gateway/api/answer.h"
#include "client/gateway/api/models_json.h"
#include "client/gateway/api/services.h"
#include "client/gateway/api/session_target.h"
#include "client/gateway/api/whole_reply.h"
#include "client/gateway/bodies/session_requests.h"
#include "client/gateway/upstream/unary_call.h"

namespace tvq::gateway {
namespace {

using Models = v1::ModelService::Stub;

asio::awaitable<void> List(Services& services, Exchange& exchange) {
  const auto models = co_await Unary<v1::ListModelsRequest, v1::ListModelsResponse>(
      exchange, HeadersOf(exchange), services.upstream.Next(), &Models::PrepareAsyncListModels,
      v1::ListModelsRequest());
  if (!models.ok()) {
    co_await exchange.Respond(ErrorResponse(ToApiError(models.status())));
    co_return;
  }
  OrderedJson json = {{"object", "list"}, {"data", OrderedJson::array()}};
  for (const v1::Model& model : models->models()) json["data"].push_back(ToJson(model));
  co_await exchange.Respond(JsonResponse(Dump(json)));
}

asio::awaitable<void> Get(Services& services, Exchange& exchange, std::string name) {
  v1::GetModelRequest request;
  request.set_name(std::move(name));
  const auto found = co_await Unary<v1::GetModelRequest, v1::GetModelResponse>(
      exchange, HeadersOf(exchange), services.upstream.Next(), &Models::PrepareAsyncGetModel,
      std::move(request));
  if (found.ok()) {
    co_await exchange.Respond(JsonResponse(Dump(ToJson(found->model()))));
  } else {
    co_await exchange.Respond(ErrorResponse(ToApiError(found.status())));
  }
}

asio::awaitable<void> Server(Services& services, Exchange& exchange) {
  auto request = ParseServerInfo(QueryOf(exchange));
  if (!request.ok()) {
    co_await exchange.Respond(ErrorResponse(ToApiError(request.status())));
    co_return;
  }
  const bool history = request->include_history();
  auto info = co_await Unary<v1::GetServerInfoRequest, v1::GetServerInfoResponse>(
      exchange, HeadersOf(exchange), services.upstream.Next(), &Models::PrepareAsyncGetServerInfo,
      *std::move(request));
  if (!info.ok()) {
    co_await exchange.Respond(ErrorResponse(ToApiError(info.status())));
    co_return;
  }
  const auto write = [history](const v1::GetServerInfoResponse& reply) {
    OrderedJson json = ToJson(reply);
    if (history) json["history"] = HistoryJson(reply);
    return Dump(json);
  };
  co_await RespondWith(services, exchange, *std::move(info), kObjectsMemory, write);
}

}  // namespace

void AddModels(Services& services, Router* router) {
  router->Add("GET", "/v1/models", [&services](Exchange& exchange, const PathFields&) {
    return List(services, exchange);
  });
  router->Add("GET", "/v1/models/{name}", [&services](Exchange& exchange, const PathFields& path) {
    return Get(services, exchange, path.find("name")->second);
  });
  router->Add("GET", "/v1/server", [&services](Exchange& exchange, const PathFields&) {
    return Server(services, exchange);
  });
}

}  // namespace tvq::gateway
