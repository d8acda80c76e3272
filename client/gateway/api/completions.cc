// POST /v1/completions
#include <memory>
#include <utility>

#include "client/gateway/api/answer.h"
#include "client/gateway/api/generate.h"
#include "client/gateway/api/read_json.h"
#include "client/gateway/api/services.h"
#include "client/gateway/bodies/completions_answer.h"
#include "client/gateway/bodies/completions_request.h"

namespace tvq::gateway {
namespace {

asio::awaitable<void> Complete(Services& services, Exchange& exchange) {
  const auto parse = [&](std::string_view body) {
    return ParseCompletions(body, exchange.request().Find("idempotency-key"));
  };
  auto request = co_await ReadJson(services, exchange, parse);
  if (!request) co_return;
  const auto model = co_await ModelOf(services, exchange, request->calls.front());
  const CallError to_error = [&](const absl::Status& status, size_t call) {
    return ToCompletionsError(status, *request, call);
  };
  if (!model.ok()) {
    co_await exchange.Respond(ErrorResponse(to_error(model.status(), 0)));
    co_return;
  }
  const AnswerHead head = MakeHead(exchange, "cmpl", *model);
  if (request->stream) {
    CompletionsEvents events(*request, head);
    co_await StreamAnswer(services, exchange, request->calls, to_error, events);
  } else {
    auto whole = std::make_unique<CompletionsWhole>(*request, head);
    co_await WholeAnswer(services, exchange, request->calls, to_error, std::move(whole));
  }
}

}  // namespace

void AddCompletions(Services& services, Router* router) {
  router->Add("POST", "/v1/completions", [&services](Exchange& exchange, const PathFields&) {
    return Complete(services, exchange);
  });
}

}  // namespace tvq::gateway
