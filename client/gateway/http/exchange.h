// One request and its answer, as the code that answers sees it.
#ifndef TVQ_CLIENT_GATEWAY_HTTP_EXCHANGE_H_
#define TVQ_CLIENT_GATEWAY_HTTP_EXCHANGE_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/gateway/http/message.h"
#include "client/gateway/http/peers.h"

namespace tvq::gateway {

namespace asio = boost::asio;

// Used by the loop's thread alone, and only until the handler that got it has ended. Exactly one
// answer: Respond, or Begin, Write... and End.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  virtual const std::string& request_id() const = 0;
  // When its first byte came.
  virtual std::chrono::steady_clock::time_point started() const = 0;
  virtual asio::any_io_executor executor() const = 0;

  // Whose request it is.
  virtual const std::shared_ptr<Peer>& peer() const = 0;

  // For metrics: what kind of request this is.
  virtual void set_route(std::string_view route) = 0;
  // Sent with whatever answer comes.
  virtual void AddHeader(Header header) = 0;

  // Bytes of the body, if the client has said.
  virtual std::optional<uint64_t> content_length() const = 0;
  // The next `size` bytes of the body, or all that are left: fewer only at its end.
  // RESOURCE_EXHAUSTED if memory for bodies is short, INVALID_ARGUMENT if it is malformed,
  // DEADLINE_EXCEEDED if it comes too slowly, CANCELLED if the client is gone.
  virtual asio::awaitable<absl::StatusOr<std::string>> ReadPiece(size_t size) = 0;

  // What was read of the body is in no memory any more: others may have it.
  virtual void BodyDone() = 0;

  // Counts memory of this request beside that of bodies, until its answer has been sent. False:
  // memory is short.
  virtual bool Hold(size_t bytes) = 0;
  // Counts so many bytes, and no more what was counted. False: memory is short, and all is as
  // before.
  virtual bool HoldInstead(size_t bytes) = 0;
  // Why memory is short, and what would help.
  virtual std::string MemoryFull() const = 0;

  // From now on a client that hangs up, or has shut down its side, is noticed. Then, or when the
  // gateway stops, `cancel` is called once: before this returns if that has happened already. A
  // client that is not gone still gets an answer. The body may still be read.
  virtual void OnHangUp(absl::AnyInvocable<void()> cancel) = 0;
  virtual bool gone() const = 0;

  virtual asio::awaitable<void> Respond(Response response) = 0;
  // The head of an answer whose body comes in pieces; `length` if it is known.
  virtual asio::awaitable<bool> Begin(Response head, std::optional<uint64_t> length) = 0;
  // Waits until the kernel has taken it all. False: the client is gone, or takes nothing for too
  // long; nothing more is to be written.
  virtual asio::awaitable<bool> Write(std::string_view piece) = 0;
  virtual asio::awaitable<void> End() = 0;
  // Instead of End: what was sent is not all, and the client must see that.
  virtual void Abort() = 0;
  virtual bool begun() const = 0;
};

using Handler = std::function<asio::awaitable<void>(Exchange&)>;

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_EXCHANGE_H_
