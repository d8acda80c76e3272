#include "client/gateway/http/server.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "client/gateway/http/transport.h"

namespace tvq::gateway {
namespace {

using asio::ip::tcp;

constexpr std::chrono::milliseconds kShort{50};  // of descriptors or memory: wait so long
constexpr size_t kShareToClose = 64;             // of all connections, where there are too many
constexpr std::chrono::seconds kLastWords{1};    // for answers that say that the gateway stops

}  // namespace

HttpServer::HttpServer(asio::io_context& loop, const HttpOptions& options, ConnectionHooks hooks,
                       TlsSource tls, OnFull on_full)
    : loop_(loop),
      options_(options),
      hooks_(std::move(hooks)),
      tls_(std::move(tls)),
      on_full_(std::move(on_full)),
      budget_(options.max_buffered_bytes),
      peers_(options.limits.max_connections, options.limits.max_connections_per_address),
      last_words_(loop) {}

absl::Status HttpServer::Listen() {
  const auto endpoints = Resolve(loop_.get_executor(), options_.host, options_.port);
  if (!endpoints.ok()) return endpoints.status();
  return ListenAt(*endpoints);
}

absl::Status HttpServer::ListenAt(const std::vector<tcp::endpoint>& endpoints) {
  auto listeners = ListenOn(loop_.get_executor(), endpoints);
  if (!listeners.ok()) return listeners.status();
  listeners_ = *std::move(listeners);
  for (tcp::acceptor& acceptor : listeners_.acceptors) {
    acceptor.non_blocking(true);
    asio::co_spawn(loop_, Accept(acceptor), asio::detached);
  }
  return absl::OkStatus();
}

asio::awaitable<void> HttpServer::Accept(tcp::acceptor& acceptor) {
  asio::steady_timer pause(loop_);
  while (acceptor.is_open()) {
    const auto [error] = co_await acceptor.async_wait(tcp::acceptor::wait_read, kAwait);
    if (stopping_) break;
    // Looked at when there is one to take: other acceptors take them, too.
    const bool full = connections() >= options_.limits.max_connections;
    if (!error && full) {
      on_full_("as many are open as --max-connections and ulimit -n allow");
      MakeRoom();
    }
    if (!error && !full && Take(acceptor)) continue;
    pause.expires_after(kShort);
    co_await pause.async_wait(kAwait);
  }
}

bool HttpServer::Take(tcp::acceptor& acceptor) {
  ErrorCode error, ignored;
  tcp::socket socket(loop_);
  tcp::endpoint from;
  acceptor.accept(socket, from, error);
  if (error) {
    if (error != asio::error::would_block) on_full_(error.message());
    return false;
  }
  socket.set_option(tcp::no_delay(true), ignored);
  try {
    auto peer = peers_.Connect(from.address(), std::chrono::steady_clock::now());
    if (peer == nullptr) {
      socket.set_option(asio::socket_base::linger(true, 0), ignored);  // at once
      return true;
    }
    absl::Cleanup disconnect = [&] { peers_.Disconnect(*peer); };
    const std::shared_ptr<asio::ssl::context> context = tls_();
    auto transport =
        context ? TlsTransport(std::move(socket), context) : PlainTransport(std::move(socket));
    auto connection = std::make_shared<Connection>(std::move(transport), loop_.get_executor(),
                                                   options_.limits, hooks_, budget_, peer);
    connections_.insert(connection.get());
    absl::Cleanup forget = [this, lost = connection.get()] { connections_.erase(lost); };
    asio::co_spawn(loop_, Keep(std::move(connection)), asio::detached);
    std::move(forget).Cancel();
    std::move(disconnect).Cancel();
    return true;
  } catch (const std::exception& problem) {
    on_full_(problem.what());
    return false;
  }
}

void HttpServer::MakeRoom() {
  struct Unused {
    Connection* connection;
    int of_address;
    std::chrono::steady_clock::time_point since;
  };
  const auto latest = std::chrono::steady_clock::now() - options_.limits.unused_time;
  std::vector<Unused> unused;
  for (Connection* connection : connections_) {
    const auto since = connection->unused_since();
    if (since && *since <= latest) {
      unused.push_back({connection, connection->peer()->connections(), *since});
    }
  }
  // Several, for looking at all of them takes time.
  const auto count = std::min(unused.size(), connections_.size() / kShareToClose + 1);
  const auto end = unused.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(unused.begin(), end, unused.end(), [](const Unused& a, const Unused& b) {
    return a.of_address != b.of_address ? a.of_address > b.of_address : a.since < b.since;
  });
  std::for_each(unused.begin(), end, [](const Unused& one) { one.connection->EndNow(); });
}

asio::awaitable<void> HttpServer::Keep(std::shared_ptr<Connection> connection) {
  if (stopping_) connection->FinishSoon();
  try {
    co_await connection->Run();
  } catch (const std::exception&) {
    connection->EndNow();  // this one alone
  }
  connections_.erase(connection.get());
  peers_.Disconnect(*connection->peer());
  Ended();
}

void HttpServer::Ended() {
  if (connections_.empty()) last_words_.cancel();
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
  const auto all = [this](void (Connection::*end)()) {
    const std::vector<Connection*> connections(connections_.begin(), connections_.end());
    for (Connection* connection : connections) (connection->*end)();
  };
  if (connections_.empty()) return;
  last_words_.expires_after(kLastWords);
  last_words_.async_wait([all](const ErrorCode& error) {
    if (!error) all(&Connection::EndNow);
  });
  all(&Connection::StopNow);
}

}  // namespace tvq::gateway
