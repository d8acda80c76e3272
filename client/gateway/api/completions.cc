// POST /v1/completions
#include <memory>
#include <utility>

#include "client/gateway/api/answer.h"
#include "client/gateway/api/generate.h"
#include "client/gateway/api/read_json.h"
#include "client/gateway/api/services.h"
#include "client/gateway/openai/completions_answer.h"
#include "client/gateway/openai/completions_request.h"

namespace tvq::gateway {
namespace {

asio::awaitable<void> Complete(Services& services, Exchange& exchange) {
  const auto parse = [&](std::string_view body) {
    return ParseCompletions(body, exchange.request().Find("idempotency-key"));
  };
  auto request = co_await ReadJson(services, exchange, parse);
  if (!request) co_return;
  const auto model = co_await ModelOf(services, exchange, request->calls.front());
  if (!model.ok()) {
    co_await exchange.Respond(ErrorResponse(ToApiError(model.status())));
    co_return;
  }
  const AnswerHead head = MakeHead(exchange, "cmpl", *model);
  if (request->stream) {
    CompletionsEvents events(*request, head);
    co_await StreamAnswer(services, exchange, request->calls, events);
  } else {
    auto whole = std::make_unique<CompletionsWhole>(*request, head);
    co_await WholeAnswer(services, exchange, request->calls, std::move(whole));
  }
}

}  // namespace

void AddCompletions(Services& services, Router* router) {
  router->Add("POST", "/v1/completions", [&services](Exchange& exchange, const PathFields&) {
    return Complete(services, exchange);
  });
}

}  // namespace tvq::gateway
