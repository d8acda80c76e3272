// Long work beside the loop.
#ifndef TVQ_CLIENT_GATEWAY_API_ASIDE_H_
#define TVQ_CLIENT_GATEWAY_API_ASIDE_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "client/gateway/http/exchange.h"
#include "client/gateway/http/signal.h"

namespace tvq::gateway {

// A body of more bytes is read by a thread beside the loop: a megabyte takes milliseconds, in which
// no stream would go on.
inline constexpr size_t kReadHereBytes = size_t{64} << 10;

// What `read` makes of a body of so many bytes; what it refers to stays until then.
template <typename Read>
asio::awaitable<std::invoke_result_t<Read>> Aside(asio::thread_pool& beside, Exchange& exchange,
                                                  size_t bytes, Read read) {
  if (bytes <= kReadHereBytes) co_return read();
  struct State {
    explicit State(asio::any_io_executor executor) : done(std::move(executor)) {}
    std::optional<std::invoke_result_t<Read>> result;
    bool finished = false;  // on the loop
    Signal done;
  };
  const auto state = std::make_shared<State>(exchange.executor());
  asio::post(beside, [state, &read] {
    state->result.emplace(read());
    asio::post(state->done.executor(), [state] {
      state->finished = true;
      state->done.Notify();
    });
  });
  while (!state->finished) co_await state->done.Wait();
  co_return *std::move(state->result);
}

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_ASIDE_H_
