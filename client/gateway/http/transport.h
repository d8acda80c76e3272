// The bytes of a connection, with TLS or without.
#ifndef TVQ_CLIENT_GATEWAY_HTTP_TRANSPORT_H_
#define TVQ_CLIENT_GATEWAY_HTTP_TRANSPORT_H_

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>

#include "absl/functional/any_invocable.h"

namespace tvq::gateway {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

// What a coroutine waits with: errors are returned.
inline constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// Used by the loop's thread alone; one read and one write at a time.
class Transport {
 public:
  using OnRead = absl::AnyInvocable<void(ErrorCode, size_t)>;

  virtual ~Transport() = default;

  // Before anything else.
  virtual asio::awaitable<ErrorCode> Handshake() = 0;
  virtual void ReadSome(asio::mutable_buffer buffer, OnRead done) = 0;
  // Writes as much as can be without a wait, and returns how much that is; maybe nothing.
  virtual size_t WriteNow(asio::const_buffer bytes) = 0;
  // All of it.
  virtual asio::awaitable<ErrorCode> Write(asio::const_buffer bytes) = 0;
  // Tells the other side that nothing more comes, while this one goes on reading, where that can
  // be.
  virtual void HalfClose() = 0;
  // The last words of a connection that ends well. No read may be under way.
  virtual asio::awaitable<void> Finish() = 0;
  // Whether the other side has closed the connection or its half of it, behind whatever is unread.
  virtual bool OtherSideEnded() = 0;
  // What is under way ends with an error.
  virtual void Cancel() = 0;
  virtual void Close() = 0;
  // Close, such that the other side sees an error rather than an end.
  virtual void Reset() = 0;
};

std::unique_ptr<Transport> PlainTransport(asio::ip::tcp::socket socket);
std::unique_ptr<Transport> TlsTransport(asio::ip::tcp::socket socket,
                                        std::shared_ptr<asio::ssl::context> context);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_TRANSPORT_H_
