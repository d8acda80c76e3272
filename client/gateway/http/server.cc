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

#include "absl/strings/str_cat.h"

namespace tvq::gateway {
namespace {

using asio::ip::tcp;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr int kBacklog = 4096;
constexpr std::chrono::milliseconds kShort{50};  // of descriptors or memory: wait so long

}  // namespace

HttpServer::HttpServer(asio::io_context& loop, const HttpOptions& options, ConnectionHooks hooks,
                       TlsSource tls)
    : loop_(loop),
      options_(options),
      hooks_(std::move(hooks)),
      tls_(std::move(tls)),
      acceptor_(loop),
      budget_(options.max_buffered_bytes) {}

absl::Status HttpServer::Listen() {
  ErrorCode error;
  tcp::resolver resolver(loop_);
  const auto found =
      resolver.resolve(options_.host, std::to_string(options_.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (!error) {
    const tcp::endpoint endpoint = *found.begin();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(kBacklog, error);
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options_.host, ":",
                                               options_.port, ": ", error.message()));
  }
  port_ = acceptor_.local_endpoint().port();
  asio::co_spawn(loop_, Accept(), asio::detached);
  return absl::OkStatus();
}

asio::awaitable<void> HttpServer::Accept() {
  asio::steady_timer pause(loop_);
  while (acceptor_.is_open()) {
    const bool full = connections() >= options_.limits.max_connections;
    tcp::socket socket(loop_);
    if (!full) {
      const auto [error] = co_await acceptor_.async_accept(socket, kAwait);
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
  acceptor_.close(ignored);
  const std::vector<Connection*> connections(connections_.begin(), connections_.end());
  for (Connection* connection : connections) connection->FinishSoon();
  Ended();
}

void HttpServer::StopNow() {
  const std::vector<Connection*> connections(connections_.begin(), connections_.end());
  for (Connection* connection : connections) connection->EndNow();
}

}  // namespace tvq::gateway
