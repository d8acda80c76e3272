// The bytes that come over a connection.
#ifndef TVQ_CLIENT_GATEWAY_HTTP_INCOMING_H_
#define TVQ_CLIENT_GATEWAY_HTTP_INCOMING_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "client/gateway/http/signal.h"
#include "client/gateway/http/transport.h"

namespace tvq::gateway {

// Reads when somebody waits for bytes, and a little ahead where the other side's end is to be
// noticed. Used by the loop's thread alone.
class Incoming final : public std::enable_shared_from_this<Incoming> {
 public:
  Incoming(std::shared_ptr<Transport> transport, const asio::any_io_executor& executor);

  // What came and was not consumed; valid until the next wait.
  std::string_view bytes() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void Consume(size_t count) { begin_ += count; }

  // Waits for more, and makes room for about `wanted` bytes. False: there will be none, or the wait
  // was cancelled.
  asio::awaitable<bool> More(size_t wanted);

  // From now on `ended` is called, once, when the other side has hung up or shut down its side, or
  // reading has failed; at once if it has.
  void Watch(absl::AnyInvocable<void()> ended);
  void Unwatch();

  // Whether a read is under way.
  bool reading() const { return reading_; }

 private:
  void Start(size_t wanted);
  void OnRead(ErrorCode error, size_t bytes);
  void WatchOn();
  void Look();
  void End();

  const std::shared_ptr<Transport> transport_;
  Signal signal_;  // a read has ended
  asio::steady_timer look_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what was not consumed
  size_t end_ = 0;
  bool reading_ = false;
  bool looking_ = false;
  ErrorCode error_;
  absl::AnyInvocable<void()> on_end_;  // while somebody watches
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_INCOMING_H_
