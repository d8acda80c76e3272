// Long work beside the loop.
#ifndef TVQ_CLIENT_GATEWAY_API_ASIDE_H_
#define TVQ_CLIENT_GATEWAY_API_ASIDE_H_

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "client/gateway/api/side_threads.h"
#include "client/gateway/http/exchange.h"
#include "client/gateway/http/signal.h"

namespace tvq::gateway {

// A body of more bytes is read, and an answer is written, by a thread beside the loop: a megabyte
// takes up to 150 ms, in which no stream would go on.
inline constexpr size_t kHereBytes = size_t{16} << 10;

// For whom nothing is to be done any more; the connection's end is under way.
struct ClientGone final : std::exception {
  const char* what() const noexcept override { return "the client has gone"; }
};

// Does `work` on `bytes` bytes, and returns or throws what it does; what it refers to lives until
// then. Throws ClientGone, without doing the work, if the client has gone while others were served.
template <typename Work>
asio::awaitable<std::invoke_result_t<Work>> Aside(SideThreads& beside, Exchange& exchange,
                                                  size_t bytes, Work work) {
  if (bytes <= kHereBytes) co_return work();
  struct State {
    explicit State(asio::any_io_executor executor) : done(std::move(executor)) {}
    std::optional<std::invoke_result_t<Work>> result;
    std::exception_ptr thrown;
    std::atomic<bool> gone = false;
    bool finished = false;  // on the loop
    Signal done;
  };
  const auto state = std::make_shared<State>(exchange.executor());
  exchange.OnHangUp([state] { state->gone = true; });
  beside.Schedule(exchange.peer(), bytes, [state, &work] {
    try {
      if (state->gone) throw ClientGone();
      state->result.emplace(work());
    } catch (...) {
      state->thrown = std::current_exception();
    }
    asio::post(state->done.executor(), [state] {
      state->finished = true;
      state->done.Notify();
    });
  });
  while (!state->finished) co_await state->done.Wait();
  if (state->thrown) std::rethrow_exception(state->thrown);
  co_return *std::move(state->result);
}

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_ASIDE_H_
