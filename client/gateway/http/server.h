#ifndef TVQ_CLIENT_GATEWAY_HTTP_SERVER_H_
#define TVQ_CLIENT_GATEWAY_HTTP_SERVER_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "client/gateway/http/connection.h"
#include "client/gateway/http/limits.h"
#include "client/gateway/http/listen.h"
#include "client/gateway/http/peers.h"

namespace tvq::gateway {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: a free one
  // Bytes of request bodies and whole answers in memory, of all connections together.
  size_t max_buffered_bytes = size_t{256} << 20;
  HttpLimits limits;
};

// Accepts connections and keeps them. All on the loop.
class HttpServer {
 public:
  // The context that a new connection is to use; nullptr: no TLS.
  using TlsSource = std::function<std::shared_ptr<asio::ssl::context>()>;
  // Hears each time that clients have to wait, and why: descriptors have run out, for example.
  using OnFull = std::function<void(std::string_view why)>;

  HttpServer(asio::io_context& loop, const HttpOptions& options, ConnectionHooks hooks,
             TlsSource tls, OnFull on_full);

  // On all addresses of the host. UNAVAILABLE, naming the address, if it cannot.
  absl::Status Listen();
  // The same on these, whatever the host is.
  absl::Status ListenAt(const std::vector<asio::ip::tcp::endpoint>& endpoints);
  // Once it listens.
  const Listeners& listeners() const { return listeners_; }
  int port() const { return listeners_.acceptors.front().local_endpoint().port(); }

  // Accepts nothing more; each connection ends after the request at hand. `done` is called when
  // none is left.
  void Stop(std::function<void()> done);
  // Ends them all; requests without an answer get 503 first, if their clients take it soon.
  void StopNow();

  int64_t connections() const { return static_cast<int64_t>(connections_.size()); }

 private:
  asio::awaitable<void> Accept(asio::ip::tcp::acceptor& acceptor);
  // Takes the connection that waits there, and closes it if its address has enough. False: it has
  // gone, or there is no descriptor or memory for it.
  bool Take(asio::ip::tcp::acceptor& acceptor);
  // Ends some of the connections that were not used for unused_time, of addresses with many first.
  void MakeRoom();
  asio::awaitable<void> Keep(std::shared_ptr<Connection> connection);
  void Ended();

  asio::io_context& loop_;
  const HttpOptions options_;
  const ConnectionHooks hooks_;
  const TlsSource tls_;
  const OnFull on_full_;
  Listeners listeners_;
  BodyBudget budget_;
  Peers peers_;
  bool stopping_ = false;
  std::function<void()> on_stopped_;
  asio::steady_timer last_words_;  // of connections that end
  std::unordered_set<Connection*> connections_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_SERVER_H_
