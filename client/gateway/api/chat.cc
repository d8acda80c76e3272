// POST /v1/chat/completions
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/gateway/api/answer.h"
#include "client/gateway/api/generate.h"
#include "client/gateway/api/read_json.h"
#include "client/gateway/api/services.h"
#include "client/gateway/openai/chat_answer.h"
#include "client/gateway/openai/chat_request.h"
#include "client/gateway/upstream/unary_call.h"

namespace tvq::gateway {
namespace {

using Generation = v1::GenerationService::Stub;
using Models = v1::ModelService::Stub;
using Sessions = v1::SessionService::Stub;

// What an answer may have, if the client does not say, where a context has no end.
constexpr int32_t kDefaultMaxTokens = 4096;

// Tokens that the session of a call, if any, has.
asio::awaitable<absl::StatusOr<int64_t>> PositionOf(Services& services, Exchange& exchange,
                                                    const v1::GenerateRequest& call) {
  if (!call.has_session()) co_return 0;
  v1::GetSessionRequest get;
  get.set_session_id(call.session().session_id());
  const auto session = co_await Unary<v1::GetSessionRequest, v1::GetSessionResponse>(
      exchange, HeadersOf(exchange, get.session_id()), services.upstream.Next(),
      &Sessions::PrepareAsyncGetSession, get);
  if (!session.ok()) co_return session.status();
  co_return session->session().position();
}

// An answer goes on to the end of the context unless the client or the model says otherwise, as
// OpenAI's does.
asio::awaitable<absl::Status> LimitTokens(Services& services, Exchange& exchange,
                                          const v1::Model& model, v1::GenerateRequest& call) {
  v1::SamplingParams& sampling = *call.mutable_sampling();
  if (sampling.has_max_tokens() || model.default_sampling().has_max_tokens()) {
    co_return absl::OkStatus();
  }
  if (model.max_position() == 0) {
    sampling.set_max_tokens(std::max(kDefaultMaxTokens, sampling.min_tokens()));
    co_return absl::OkStatus();
  }
  const auto position = co_await PositionOf(services, exchange, call);
  if (!position.ok()) co_return position.status();
  v1::TokenizeRequest tokenize;
  tokenize.set_model(model.name());
  tokenize.set_text(absl::StrCat(call.answer_suffix(), call.text()));  // at most so much is fed
  const auto prompt = co_await Unary<v1::TokenizeRequest, v1::TokenizeResponse>(
      exchange, HeadersOf(exchange), services.upstream.Next(), &Generation::PrepareAsyncTokenize,
      std::move(tokenize));
  if (!prompt.ok()) co_return prompt.status();
  const int64_t left = model.max_position() - *position - prompt->token_ids_size();
  // Where nothing is left the server says so.
  sampling.set_max_tokens(static_cast<int32_t>(std::clamp<int64_t>(left, 1, INT32_MAX)));
  co_return absl::OkStatus();
}

// Writes the conversation as the request's model wants it.
asio::awaitable<absl::Status> Prepare(Services& services, Exchange& exchange,
                                      ChatRequest& request) {
  const auto name = co_await ModelOf(services, exchange, request.call);
  if (!name.ok()) co_return name.status();
  v1::GetModelRequest get;
  get.set_name(*name);
  const auto model = co_await Unary<v1::GetModelRequest, v1::GetModelResponse>(
      exchange, HeadersOf(exchange), services.upstream.Next(), &Models::PrepareAsyncGetModel,
      std::move(get));
  if (!model.ok()) co_return model.status();
  absl::Status applied = ApplyTemplate(model->model(), &request);
  request.messages = {};  // the prompt has them
  if (applied.ok() && !exchange.HoldInstead(request.MemoryBytes())) co_return NoMemoryToRead();
  if (!applied.ok()) co_return applied;
  absl::Status limited = co_await LimitTokens(services, exchange, model->model(), request.call);
  co_return limited;
}

asio::awaitable<void> Chat(Services& services, Exchange& exchange) {
  const auto parse = [&](std::string_view body) {
    return ParseChat(body, exchange.request().Find("idempotency-key"));
  };
  auto request = co_await ReadJson(services, exchange, parse);
  if (!request) co_return;
  const absl::Status status = co_await Prepare(services, exchange, *request);
  if (!status.ok()) {
    co_await exchange.Respond(ErrorResponse(ToChatError(status, *request)));
    co_return;
  }
  const AnswerHead head = MakeHead(exchange, "chatcmpl", request->call.model());
  std::string prompt = std::move(*request->call.mutable_text());
  request->call.clear_prompt();
  std::vector<v1::GenerateRequest> calls = {request->call};
  calls.front().set_text(std::move(prompt));
  const CallError to_error = [&](const absl::Status& failure, size_t) {
    return ToChatError(failure, *request);
  };
  if (request->stream) {
    ChatEvents events(*request, head);
    co_await StreamAnswer(services, exchange, calls, to_error, events);
  } else {
    auto whole = std::make_unique<ChatWhole>(*request, head);
    co_await WholeAnswer(services, exchange, calls, to_error, std::move(whole));
  }
}

}  // namespace

void AddChat(Services& services, Router* router) {
  router->Add("POST", "/v1/chat/completions", [&services](Exchange& exchange, const PathFields&) {
    return Chat(services, exchange);
  });
}

}  // namespace tvq::gateway
