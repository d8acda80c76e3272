// A coroutine waits, somebody wakes it.
#ifndef TVQ_CLIENT_GATEWAY_HTTP_SIGNAL_H_
#define TVQ_CLIENT_GATEWAY_HTTP_SIGNAL_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace tvq::gateway {

namespace asio = boost::asio;

// g++ 12 makes wrong code of a co_await in the condition of an if or a loop or beside && and ||. It
// also makes wrong code of initializer lists and of lambdas with captures in its operand. So give
// names to the awaited operation, its arguments and its result.
//
// Used by the loop's thread alone. One coroutine waits at a time. When it is woken it looks again
// at what it waits for: a Notify that none waited for wakes the next Wait at once.
class Signal {
 public:
  explicit Signal(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  Signal(const Signal&) = delete;

  asio::awaitable<void> Wait() {
    if (std::exchange(notified_, false)) co_return;
    co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [this](auto handler) { waiter_ = std::move(handler); }, asio::use_awaitable);
    notified_ = false;
  }

  void Notify() {
    notified_ = true;
    if (waiter_) asio::post(executor_, std::exchange(waiter_, nullptr));
  }

  // The same for callers that have nothing left to do: runs the coroutine at once.
  void Wake() {
    notified_ = true;
    if (waiter_) std::exchange(waiter_, nullptr)();
  }

  const asio::any_io_executor& executor() const { return executor_; }

 private:
  const asio::any_io_executor executor_;
  bool notified_ = false;
  absl::AnyInvocable<void()> waiter_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_SIGNAL_H_
