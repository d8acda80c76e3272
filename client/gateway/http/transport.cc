#include "client/gateway/http/transport.h"

#include <poll.h>

#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <utility>

namespace tvq::gateway {
namespace {

using asio::ip::tcp;

// What both have in common: the socket.
template <typename Stream>
class StreamTransport : public Transport {
 public:
  template <typename... Arguments>
  explicit StreamTransport(Arguments&&... arguments)
      : stream_(std::forward<Arguments>(arguments)...) {}

  void ReadSome(asio::mutable_buffer buffer, OnRead done) override {
    stream_.async_read_some(buffer, std::move(done));
  }
  asio::awaitable<ErrorCode> Write(asio::const_buffer bytes) override {
    const auto [error, written] = co_await asio::async_write(stream_, bytes, kAwait);
    co_return error;
  }
  bool OtherSideEnded() override {
    pollfd polled{.fd = socket().native_handle(), .events = POLLRDHUP, .revents = 0};
    return ::poll(&polled, 1, 0) != 0;
  }
  void Cancel() override {
    ErrorCode ignored;
    socket().cancel(ignored);
  }
  void Close() override {
    ErrorCode ignored;
    socket().close(ignored);
  }
  void Reset() override {
    ErrorCode ignored;
    socket().set_option(asio::socket_base::linger(true, 0), ignored);
    socket().close(ignored);
  }

 protected:
  auto& socket() { return stream_.lowest_layer(); }
  Stream stream_;
};

class Plain final : public StreamTransport<tcp::socket> {
 public:
  explicit Plain(tcp::socket socket) : StreamTransport(std::move(socket)) {
    ErrorCode ignored;  // of a socket that is of no use: every operation will tell
    stream_.non_blocking(true, ignored);
  }
  size_t WriteNow(asio::const_buffer bytes) override {
    ErrorCode ignored;  // Write meets it again
    return stream_.non_blocking() ? stream_.write_some(bytes, ignored) : 0;
  }
  asio::awaitable<ErrorCode> Handshake() override { co_return ErrorCode(); }
  void HalfClose() override {
    ErrorCode ignored;
    stream_.shutdown(tcp::socket::shutdown_send, ignored);
  }
  asio::awaitable<void> Finish() override { co_return; }
};

using TlsStream = asio::ssl::stream<tcp::socket>;

class Tls final : public StreamTransport<TlsStream> {
 public:
  Tls(tcp::socket socket, std::shared_ptr<asio::ssl::context> context)
      : StreamTransport(std::move(socket), *context), context_(std::move(context)) {
    SSL_set_mode(stream_.native_handle(), SSL_MODE_RELEASE_BUFFERS);  // of idle connections
  }
  asio::awaitable<ErrorCode> Handshake() override {
    const auto [error] = co_await stream_.async_handshake(asio::ssl::stream_base::server, kAwait);
    co_return error;
  }
  // What OpenSSL cannot write at once it wants to write again.
  size_t WriteNow(asio::const_buffer) override { return 0; }
  void HalfClose() override {}  // after the closing alert nothing can be read
  asio::awaitable<void> Finish() override { co_await stream_.async_shutdown(kAwait); }

 private:
  const std::shared_ptr<asio::ssl::context> context_;
};

}  // namespace

std::unique_ptr<Transport> PlainTransport(tcp::socket socket) {
  return std::make_unique<Plain>(std::move(socket));
}

std::unique_ptr<Transport> TlsTransport(tcp::socket socket,
                                        std::shared_ptr<asio::ssl::context> context) {
  return std::make_unique<Tls>(std::move(socket), std::move(context));
}

}  // namespace tvq::gateway
