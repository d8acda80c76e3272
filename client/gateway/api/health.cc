// GET /health, /v1/health/live, /v1/health/ready, /version
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <memory>

#include "client/gateway/api/answer.h"
#include "client/gateway/api/models_json.h"
#include "client/gateway/api/services.h"
#include "client/gateway/http/signal.h"
#include "client/gateway/upstream/call.h"

namespace tvq::gateway {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};

asio::awaitable<void> Live(Exchange& exchange) {
  co_await exchange.Respond(JsonResponse(R"({"status":"ok"})"));
}

// grpc.health.v1.HealthCheckResponse with status SERVING: field 1, a number, 1.
bool SaysServing(const grpc::ByteBuffer& response) {
  grpc::Slice slice;
  if (!response.DumpToSingleSlice(&slice).ok() || slice.size() < 2) return false;
  return slice.begin()[0] == 0x08 && slice.begin()[1] == 0x01;
}

// The server's health, as its standard service says. It needs no key.
asio::awaitable<bool> Serving(Services& services, Exchange& exchange) {
  struct State {
    State(const std::shared_ptr<grpc::Channel>& channel, asio::any_io_executor executor)
        : stub(channel), done(std::move(executor)) {}
    OpenCalls open;
    grpc::ClientContext context;
    grpc::GenericStub stub;
    grpc::ByteBuffer request, response;
    bool finished = false, serving = false;  // on the loop
    Signal done;
  };
  const auto state = std::make_shared<State>(services.upstream.Next().channel, exchange.executor());
  CallHeaders headers;
  headers.request_id = exchange.request_id();
  headers.timeout = kPatience;
  headers.Apply(&state->context);
  const grpc::Slice empty;
  state->request = grpc::ByteBuffer(&empty, 1);
  state->stub.UnaryCall(&state->context, "/grpc.health.v1.Health/Check", grpc::StubOptions(),
                        &state->request, &state->response, [state](const grpc::Status& status) {
                          asio::post(state->done.executor(), [state, ok = status.ok()] {
                            state->serving = ok && SaysServing(state->response);
                            state->finished = true;
                            state->done.Notify();
                          });
                        });
  while (!state->finished) co_await state->done.Wait();
  co_return state->serving;
}

asio::awaitable<void> Ready(Services& services, Exchange& exchange) {
  const bool serving = co_await Serving(services, exchange);
  Response response =
      serving ? JsonResponse(R"({"status":"ok"})")
              : ErrorResponse(HttpError(
                    503, "the server cannot be reached, is stopping, or says that it hangs"));
  co_await exchange.Respond(std::move(response));
}

asio::awaitable<void> Version(Services& services, Exchange& exchange) {
  const OrderedJson json = {{"version", services.version}};
  co_await exchange.Respond(JsonResponse(Dump(json)));
}

}  // namespace

void AddHealth(Services& services, Router* router) {
  for (const char* path : {"/health", "/v1/health/live"}) {
    router->Add("GET", path, [](Exchange& exchange, const PathFields&) { return Live(exchange); });
  }
  router->Add("GET", "/v1/health/ready", [&services](Exchange& exchange, const PathFields&) {
    return Ready(services, exchange);
  });
  router->Add("GET", "/version", [&services](Exchange& exchange, const PathFields&) {
    return Version(services, exchange);
  });
}

}  // namespace tvq::gateway
