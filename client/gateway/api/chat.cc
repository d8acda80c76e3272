// POST /v1/chat/completions
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/gateway/api/answer.h"
#include "client/gateway/api/generate.h"
#include "client/gateway/api/read_json.h"
#include "client/gateway/api/services.h"
#include "client/gateway/bodies/chat_answer.h"
#include "client/gateway/bodies/chat_request.h"
#include "client/gateway/upstream/unary_call.h"

namespace tvq::gateway {
namespace {

using Models = v1::ModelService::Stub;

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
  if (applied.ok() && !exchange.HoldInstead(request.MemoryBytes())) {
    co_return NoMemoryToRead(exchange);
  }
  co_return applied;
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
  v1::GenerateRequest prompt;
  if (request->call.has_conversation()) {
    prompt.mutable_conversation()->Swap(request->call.mutable_conversation());
  } else {
    prompt.mutable_text()->swap(*request->call.mutable_text());
  }
  request->call.clear_prompt();
  std::vector<v1::GenerateRequest> calls(1);
  calls.front().Swap(&prompt);
  calls.front().MergeFrom(request->call);
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
