#ifndef TVQ_CLIENT_GATEWAY_UPSTREAM_UNARY_CALL_H_
#define TVQ_CLIENT_GATEWAY_UPSTREAM_UNARY_CALL_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "client/cpp/grpc_call.h"
#include "client/gateway/http/exchange.h"
#include "client/gateway/http/signal.h"
#include "client/gateway/upstream/call.h"

namespace tvq::gateway {

// One question, one answer, on behalf of an exchange whose hang-up cancels it. `async` is the part
// of a stub that takes callbacks, `method` one of its methods.
template <typename Request, typename Response, typename Async>
asio::awaitable<absl::StatusOr<Response>> Unary(
    Exchange& exchange, CallHeaders headers, Async* async,
    void (Async::*method)(grpc::ClientContext*, const Request*, Response*,
                          std::function<void(grpc::Status)>),
    std::type_identity_t<Request> request) {
  struct State {
    explicit State(asio::any_io_executor executor) : done(std::move(executor)) {}
    OpenCalls open;
    grpc::ClientContext context;
    Request request;
    Response response;
    absl::Status status;
    bool finished = false;  // on the loop
    Signal done;
  };
  const auto state = std::make_shared<State>(exchange.executor());
  state->request = std::move(request);
  headers.Apply(&state->context);
  (async->*method)(&state->context, &state->request, &state->response,
                   std::function<void(grpc::Status)>([state](const grpc::Status& status) {
                     asio::post(state->done.executor(), [state, status] {
                       state->status = client::FromGrpc(status, state->context);
                       state->finished = true;
                       state->done.Notify();
                     });
                   }));
  exchange.OnHangUp([state] { state->context.TryCancel(); });
  while (!state->finished) co_await state->done.Wait();
  if (!state->status.ok()) co_return state->status;
  co_return std::move(state->response);
}

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_UPSTREAM_UNARY_CALL_H_
