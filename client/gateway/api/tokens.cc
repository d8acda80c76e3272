// POST /tokenize and /detokenize, as vLLM has them.
#include <utility>

#include "client/gateway/api/answer.h"
#include "client/gateway/api/models_json.h"
#include "client/gateway/api/read_json.h"
#include "client/gateway/api/services.h"
#include "client/gateway/openai/json_text.h"
#include "client/gateway/openai/session_requests.h"
#include "client/gateway/upstream/unary_call.h"

namespace tvq::gateway {
namespace {

using Generation = v1::GenerationService::Stub;
using Models = v1::ModelService::Stub;

ApiError TokensError(const absl::Status& status) {
  ApiError error = ToApiError(status);
  if (error.param == "text") error.param = "prompt";
  if (error.param.starts_with("token_ids")) error.param.replace(0, 9, "tokens");
  return error;
}

// Null for models without a limit.
OrderedJson LongestOf(const v1::Model& model) {
  return model.max_position() == 0 ? OrderedJson() : OrderedJson(model.max_position());
}

asio::awaitable<absl::StatusOr<std::string>> Tokens(Services& services, Exchange& exchange,
                                                    v1::TokenizeRequest request) {
  v1::GetModelRequest get;
  get.set_name(request.model());
  const auto tokens = co_await Unary<v1::TokenizeRequest, v1::TokenizeResponse>(
      exchange, HeadersOf(exchange), services.upstream.Next(), &Generation::PrepareAsyncTokenize,
      std::move(request));
  if (!tokens.ok()) co_return tokens.status();
  const auto model = co_await Unary<v1::GetModelRequest, v1::GetModelResponse>(
      exchange, HeadersOf(exchange), services.upstream.Next(), &Models::PrepareAsyncGetModel,
      std::move(get));
  if (!model.ok()) co_return model.status();
  const auto write = [&] {
    OrderedJson json;
    json["count"] = tokens->token_ids_size();
    json["max_model_len"] = LongestOf(model->model());
    json["tokens"] = tokens->token_ids();
    return Dump(json);
  };
  std::string json = co_await Aside(services.beside, exchange, tokens->ByteSizeLong(), write);
  co_return json;
}

asio::awaitable<void> Tokenize(Services& services, Exchange& exchange) {
  auto request = co_await ReadJson(services, exchange, ParseTokenize, TokensError);
  if (!request) co_return;
  absl::StatusOr<std::string> json = co_await Tokens(services, exchange, *std::move(request));
  Response answer =
      json.ok() ? JsonResponse(*std::move(json)) : ErrorResponse(TokensError(json.status()));
  co_await exchange.Respond(std::move(answer));
}

asio::awaitable<void> Detokenize(Services& services, Exchange& exchange) {
  auto request = co_await ReadJson(services, exchange, ParseDetokenize, TokensError);
  if (!request) co_return;
  const auto text = co_await Unary<v1::DetokenizeRequest, v1::DetokenizeResponse>(
      exchange, HeadersOf(exchange), services.upstream.Next(), &Generation::PrepareAsyncDetokenize,
      *std::move(request));
  std::string json = R"({"prompt":)";
  if (text.ok()) AppendJsonString(text->text(), &json);
  json.push_back('}');
  Response answer =
      text.ok() ? JsonResponse(std::move(json)) : ErrorResponse(TokensError(text.status()));
  co_await exchange.Respond(std::move(answer));
}

}  // namespace

void AddTokens(Services& services, Router* router) {
  router->Add("POST", "/tokenize", [&services](Exchange& exchange, const PathFields&) {
    return Tokenize(services, exchange);
  });
  router->Add("POST", "/detokenize", [&services](Exchange& exchange, const PathFields&) {
    return Detokenize(services, exchange);
  });
}

}  // namespace tvq::gateway
