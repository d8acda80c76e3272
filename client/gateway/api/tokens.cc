// POST /tokenize and /detokenize, as vLLM has them.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/gateway/api/answer.h"
#include "client/gateway/api/read_json.h"
#include "client/gateway/api/services.h"
#include "client/gateway/api/whole_reply.h"
#include "client/gateway/bodies/choice.h"
#include "client/gateway/bodies/json_text.h"
#include "client/gateway/bodies/session_requests.h"
#include "client/gateway/upstream/unary_call.h"

namespace tvq::gateway {
namespace {

using Generation = v1::GenerationService::Stub;
using Models = v1::ModelService::Stub;

ApiError TokensError(const absl::Status& status) {
  return ToApiError(status, {{"text", "prompt"}, {"token_ids", "tokens"}});
}

ApiError TokenizeError(const absl::Status& status, bool is_conversation) {
  if (!is_conversation) return TokensError(status);
  FieldNames names = ConversationFieldNames();
  names.push_back({"text", "messages"});
  return ToApiError(status, names);
}

// {"count":...,"max_model_len":...,"tokens":[...],"unknown_tokens":...,"text":...}; max_model_len
// is null for models without a limit, text is there of a conversation that the model's own template
// wrote.
std::string ToJson(const v1::TokenizeResponse& tokens, const v1::Model& model) {
  std::string json = absl::StrCat(R"({"count":)", tokens.token_ids_size(), R"(,"max_model_len":)");
  absl::StrAppend(&json, model.max_position() == 0 ? "null" : absl::StrCat(model.max_position()));
  json += R"(,"tokens":)";
  AppendIds({tokens.token_ids().data(), static_cast<size_t>(tokens.token_ids_size())}, &json);
  absl::StrAppend(&json, R"(,"unknown_tokens":)", tokens.unknown_tokens());
  if (!tokens.text().empty()) {
    json += R"(,"text":)";
    AppendJsonString(tokens.text(), &json);
  }
  json += "}";
  return json;
}

struct Tokens {
  v1::TokenizeResponse ids;
  v1::GetModelResponse model;
};

// Gives a conversation as the model's template has it.
absl::Status Apply(const v1::Model& model, TokenizeBody& body) {
  v1::GenerateRequest call;
  const auto asked = Ask(model, *body.conversation, &call);
  if (!asked.ok()) return asked.status();
  if (call.has_conversation()) {
    body.request.mutable_conversation()->Swap(call.mutable_conversation());
  } else {
    body.request.mutable_text()->swap(*call.mutable_text());
  }
  return absl::OkStatus();
}

asio::awaitable<absl::StatusOr<Tokens>> TokensOf(Services& services, Exchange& exchange,
                                                 TokenizeBody& body) {
  v1::GetModelRequest get;
  get.set_name(body.request.model());
  auto model = co_await Unary<v1::GetModelRequest, v1::GetModelResponse>(
      exchange, HeadersOf(exchange), services.upstream.Next(), &Models::PrepareAsyncGetModel,
      std::move(get));
  if (!model.ok()) co_return model.status();
  if (body.conversation) {
    const absl::Status applied = Apply(model->model(), body);
    if (!applied.ok()) co_return applied;
  }
  auto ids = co_await Unary<v1::TokenizeRequest, v1::TokenizeResponse>(
      exchange, HeadersOf(exchange), services.upstream.Next(), &Generation::PrepareAsyncTokenize,
      std::move(body.request));
  if (!ids.ok()) co_return ids.status();
  co_return Tokens{.ids = *std::move(ids), .model = *std::move(model)};
}

asio::awaitable<void> Tokenize(Services& services, Exchange& exchange) {
  auto request = co_await ReadJson(services, exchange, ParseTokenize, TokensError);
  if (!request) co_return;
  const bool is_conversation = request->conversation.has_value();
  absl::StatusOr<Tokens> tokens = co_await TokensOf(services, exchange, *request);
  if (!tokens.ok()) {
    co_await exchange.Respond(ErrorResponse(TokenizeError(tokens.status(), is_conversation)));
    co_return;
  }
  const auto write = [&](const v1::TokenizeResponse& ids) {
    return ToJson(ids, tokens->model.model());
  };
  co_await RespondWith(services, exchange, std::move(tokens->ids), kIdsMemory, write);
}

asio::awaitable<void> Detokenize(Services& services, Exchange& exchange) {
  auto request = co_await ReadJson(services, exchange, ParseDetokenize, TokensError);
  if (!request) co_return;
  auto text = co_await Unary<v1::DetokenizeRequest, v1::DetokenizeResponse>(
      exchange, HeadersOf(exchange), services.upstream.Next(), &Generation::PrepareAsyncDetokenize,
      *std::move(request));
  if (!text.ok()) {
    co_await exchange.Respond(ErrorResponse(TokensError(text.status())));
    co_return;
  }
  const auto write = [](const v1::DetokenizeResponse& reply) {
    std::string json = R"({"prompt":)";
    AppendJsonString(reply.text(), &json);
    json.push_back('}');
    return json;
  };
  co_await RespondWith(services, exchange, *std::move(text), kTextMemory, write);
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
