// GET /health, /v1/health/live, /v1/health/ready, /version
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <spdlog/spdlog.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "client/cpp/proxy.h"
#include "client/gateway/api/answer.h"
#include "client/gateway/api/models_json.h"
#include "client/gateway/api/services.h"
#include "client/gateway/upstream/unary_call.h"

namespace tvq::gateway {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};
constexpr std::chrono::seconds kBetween{1};  // two questions to a server that is away

asio::awaitable<void> Live(Exchange& exchange) {
  co_await exchange.Respond(JsonResponse(R"({"status":"ok"})"));
}

// grpc.health.v1.HealthCheckResponse with status SERVING: field 1, a number, 1.
bool SaysServing(const grpc::ByteBuffer& response) {
  grpc::Slice slice;
  if (!response.DumpToSingleSlice(&slice).ok() || slice.size() < 2) return false;
  return slice.begin()[0] == 0x08 && slice.begin()[1] == 0x01;
}

// Makes a call for the server's health, as its standard service says. It needs no key.
auto Prepare(const Stubs& stubs) {
  return [&stubs](grpc::ClientContext* context) {
    const grpc::Slice empty;
    const grpc::ByteBuffer request(&empty, 1);
    return grpc::GenericStub(stubs.channel)
        .PrepareUnaryCall(context, "/grpc.health.v1.Health/Check", request, stubs.queue);
  };
}

asio::awaitable<bool> Serving(Services& services, Exchange& exchange) {
  CallHeaders headers;
  headers.request_id = exchange.request_id();
  headers.peer = exchange.peer();
  headers.deadline = std::chrono::steady_clock::now() + kPatience;
  const auto prepare = Prepare(services.upstream.Next());
  const auto response = co_await Ask<grpc::ByteBuffer>(exchange, headers, prepare);
  co_return response.ok() && SaysServing(*response);
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

asio::awaitable<absl::Status> ServerWatch::AskServer() {
  CallHeaders headers;
  headers.request_id = "start";
  headers.deadline = std::chrono::steady_clock::now() + kPatience;
  const auto question =
      std::make_shared<Question<grpc::ByteBuffer>>(headers, between_.get_executor());
  question->Start(Prepare(services_.upstream.Next()));
  cancel_ = [question] { question->Cancel(); };
  const auto answer = co_await question->Answer();
  cancel_ = nullptr;  // which would keep the question, and it counts among the open calls
  co_return answer.status();
}

asio::awaitable<void> ServerWatch::Run() {
  const auto is_away = [](const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  };
  absl::Status status = co_await AskServer();
  if (stopped_ || !is_away(status)) co_return;
  if (absl::IsUnavailable(status)) {
    spdlog::warn("{} (--server, TVQ_SERVER) Until it is there, requests are answered with 503",
                 std::string(status.message()));
  } else {
    spdlog::warn("the server (--server, TVQ_SERVER) does not answer within {} s.{}",
                 std::chrono::duration<double>(kPatience).count(),
                 client::ThroughProxy(services_.upstream.address()));
  }
  while (is_away(status)) {
    if (stopped_) co_return;
    between_.expires_after(kBetween);
    co_await between_.async_wait(asio::as_tuple(asio::use_awaitable));
    if (stopped_) co_return;
    status = co_await AskServer();
  }
  if (stopped_) co_return;
  spdlog::info("the server answers now");
}

void ServerWatch::Stop() {
  stopped_ = true;
  between_.cancel();
  if (cancel_ != nullptr) cancel_();
}

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
