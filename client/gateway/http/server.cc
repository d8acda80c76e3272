#include "client/gateway/http/server.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <utility>
#include <vector>

namespace tvq::gateway {
namespace {

using asio::ip::tcp;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds kShort{50};  // of descriptors or memory: wait so long

}  // namespace

HttpServer::HttpServer(asio::io_context& loop, const HttpOptions& options, ConnectionHooks hooks,
                       TlsSource tls)
    : loop_(loop),
      options_(options),
      hooks_(std::move(hooks)),
      tls_(std::move(tls)),
      budget_(options.max_buffered_bytes) {}

absl::Status HttpServer::Listen() {
  const auto endpoints = Resolve(loop_.get_executor(), options_.host, options_.port);
  if (!endpoints.ok()) return endpoints.status();
  auto listeners = ListenOn(loop_.get_executor(), *endpoints);
  if (!listeners.ok()) return listeners.status();
  listeners_ = *std::move(listeners);
  for (tcp::acceptor& acceptor : listeners_.acceptors) {
    asio::co_spawn(loop_, Accept(acceptor), asio::detached);
  }
  return absl::OkStatus();
}

// One of several takes a connection more than there may be, if others took one meanwhile.
asio::awaitable<void> HttpServer::Accept(tcp::acceptor& acceptor) {
  asio::steady_timer pause(loop_);
  while (acceptor.is_open()) {
    const bool full = connections() >= options_.limits.max_connections;
    tcp::socket socket(loop_);
    if (!full) {
      const auto [error] = co_await acceptor.async_accept(socket, kAwait);
      if (!error && Open(std::move(socket))) continue;
      if (stopping_) break;
    }
    pause.expires_after(kShort);
    co_await pause.async_wait(kAwait);
  }
}

bool HttpServer::Open(tcp::socket socket) {
  ErrorCode ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  try {
    const std::shared_ptr<asio::ssl::context> context = tls_();
    auto transport =
        context ? TlsTransport(std::move(socket), context) : PlainTransport(std::move(socket));
    asio::co_spawn(loop_,
                   Keep(std::make_shared<Connection>(std::move(transport), loop_.get_executor(),
                                                     options_.limits, hooks_, budget_)),
                   asio::detached);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

asio::awaitable<void> HttpServer::Keep(std::shared_ptr<Connection> connection) {
  connections_.insert(connection.get());
  if (stopping_) connection->FinishSoon();
  try {
    co_await connection->Run();
  } catch (const std::exception&) {
    connection->EndNow();  // this one alone
  }
  connections_.erase(connection.get());
  Ended();
}

void HttpServer::Ended() {
  if (on_stopped_ && connections_.empty()) std::exchange(on_stopped_, nullptr)();
}

void HttpServer::Stop(std::function<void()> done) {
  stopping_ = true;
  on_stopped_ = std::move(done);
  ErrorCode ignored;
  for (tcp::acceptor& acceptor : listeners_.acceptors) acceptor.close(ignored);
  const std::vector<Connection*> connections(connections_.begin(), connections_.end());
  for (Connection* connection : connections) connection->FinishSoon();
  Ended();
}

void HttpServer::StopNow() {
  const std::vector<Connection*> connections(connections_.begin(), connections_.end());
  for (Connection* connection : connections) connection->EndNow();
}

}  // namespace tvq::gateway
