#ifndef TVQ_CLIENT_LOADTEST_HTTP_CONNECTION_POOL_H_
#define TVQ_CLIENT_LOADTEST_HTTP_CONNECTION_POOL_H_

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "client/loadtest/http/http_target.h"

namespace tvq::loadtest {

using TcpSocket = boost::asio::ip::tcp::socket;
using TlsStream = boost::asio::ssl::stream<TcpSocket>;

// `Stream` is TcpSocket or TlsStream.
template <typename Stream>
struct HttpConnection {
  template <typename... Arguments>
  explicit HttpConnection(Arguments&&... arguments)
      : stream(std::forward<Arguments>(arguments)...) {}

  auto& socket() { return stream.lowest_layer(); }

  Stream stream;
  boost::beast::flat_buffer buffer;
  bool used = false;  // a response came over it
};

// Connections to one server; those that are not in use wait to be used again, the latest first. One
// thread.
template <typename Stream>
class ConnectionPool {
 public:
  using Connection = HttpConnection<Stream>;
  using Endpoints = boost::asio::ip::tcp::resolver::results_type;
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;

  ConnectionPool(boost::asio::io_context& io, boost::asio::ssl::context* tls, Endpoints endpoints,
                 const HttpOptions& options)
      : io_(io),
        tls_(tls),
        endpoints_(std::move(endpoints)),
        host_(options.url.host),
        keep_alive_(options.keep_alive),
        stale_within_(options.stale_within) {}

  // Null if none waits.
  std::unique_ptr<Connection> TakeIdle() {
    if (idle_.empty()) return nullptr;
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }

  // Not connected yet.
  std::unique_ptr<Connection> Make() {
    if constexpr (kTls) {
      return std::make_unique<Connection>(io_, *tls_);
    } else {
      return std::make_unique<Connection>(io_);
    }
  }

  // Handler: (error_code).
  template <typename Handler>
  void Connect(Connection& connection, Handler handler) {
    auto on_connected = [this, &connection, handler = std::move(handler)](
                            boost::system::error_code error, const auto&) mutable {
      if (error) return handler(error);
      connection.socket().set_option(boost::asio::ip::tcp::no_delay(true), error);
      Greet(connection, std::move(handler));
    };
    boost::asio::async_connect(connection.socket(), endpoints_, std::move(on_connected));
  }

  void Return(std::unique_ptr<Connection> connection) {
    if (keep_alive_) idle_.push_back(std::move(connection));
  }
  bool keep_alive() const { return keep_alive_; }
  std::chrono::nanoseconds stale_within() const { return stale_within_; }

 private:
  // What comes before the first request.
  template <typename Handler>
  void Greet(Connection& connection, Handler&& handler) {
    boost::system::error_code error;
    if constexpr (kTls) {
      if (boost::asio::ip::make_address(host_, error); error) {  // only names may be sent
        SSL_set_tlsext_host_name(connection.stream.native_handle(), host_.c_str());
      }
      connection.stream.set_verify_callback(boost::asio::ssl::host_name_verification(host_), error);
      connection.stream.async_handshake(boost::asio::ssl::stream_base::client,
                                        std::forward<Handler>(handler));
    } else {
      std::forward<Handler>(handler)(error);
    }
  }

  boost::asio::io_context& io_;
  boost::asio::ssl::context* const tls_;
  const Endpoints endpoints_;
  const std::string host_;
  const bool keep_alive_;
  const std::chrono::nanoseconds stale_within_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_HTTP_CONNECTION_POOL_H_
