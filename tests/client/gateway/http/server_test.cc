#include "client/gateway/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/client/gateway/http/loopback.h"

namespace tvq::gateway {
namespace {

using asio::ip::make_address;
using testing::StartsWith;

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

TEST(HttpServerTest, AddressesShareTheLimitOfConnections) {
  asio::io_context loop{1};
  HttpOptions options;
  options.limits.max_connections = 1;
  std::optional<HttpServer> server;
  int64_t most = 0;
  const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
    most = std::max(most, server->connections());
    Response response;
    co_await exchange.Respond(std::move(response));
  };
  server.emplace(
      loop, options,
      ConnectionHooks{.handler = handler, .error = {}, .finished = [](const auto&) {}},
      [] { return nullptr; }, [](std::string_view) {});
  const absl::Status listens =
      server->ListenAt({{make_address("127.0.0.1"), 0}, {make_address("127.0.0.2"), 0}});
  ASSERT_TRUE(listens.ok()) << listens;
  const int port = server->port();
  std::thread thread([&] { loop.run(); });

  RawClient first(port);
  first.Send(kGet);
  EXPECT_THAT(first.Answer(), StartsWith("HTTP/1.1 200"));
  RawClient second(port, 0, "127.0.0.2");
  second.Send(kGet);
  for (int i = 0; i < 50; ++i) {  // meanwhile the loop has seen the second
    first.Send(kGet);
    EXPECT_THAT(first.Answer(), StartsWith("HTTP/1.1 200"));
  }
  first.Close();
  EXPECT_THAT(second.Answer(), StartsWith("HTTP/1.1 200"));
  asio::post(loop, [&] {
    server->Stop([] {});
    server->StopNow();
  });
  thread.join();
  EXPECT_EQ(most, 1);
}

TEST(HttpServerTest, UnusedConnectionsMakeRoomForOthers) {
  HttpOptions options;
  options.limits.max_connections = 3;
  options.limits.unused_time = std::chrono::milliseconds(50);
  const auto handler = [](Exchange& exchange) -> asio::awaitable<void> {
    Response response;
    co_await exchange.Respond(std::move(response));
  };
  LoopbackServer server(options, handler);
  const auto answer = [](RawClient& client) {
    client.Send(kGet);
    return client.Answer();
  };
  RawClient silent(server.port()), busy(server.port()), idle(server.port());
  busy.Send("GET / HTTP/1.1\r\n");  // of a request on its way
  EXPECT_THAT(answer(idle), StartsWith("HTTP/1.1 200"));
  RawClient next(server.port());
  EXPECT_THAT(answer(next), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(silent.Receive(1), "") << "it was unused for longest";
  busy.Send("Host: h\r\n\r\n");
  EXPECT_THAT(busy.Answer(), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServerTest, ConnectionsOfOneAddressAreLimited) {
  HttpOptions options;
  options.limits.max_connections_per_address = 2;
  const auto handler = [](Exchange& exchange) -> asio::awaitable<void> {
    Response response;
    co_await exchange.Respond(std::move(response));
  };
  LoopbackServer server(options, handler);
  const auto answer = [](RawClient& client) {
    client.Send(kGet);
    return client.Answer();
  };
  RawClient first(server.port()), second(server.port());
  EXPECT_THAT(answer(first), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer(second), StartsWith("HTTP/1.1 200"));
  RawClient third(server.port());
  EXPECT_EQ(third.Receive(1), "") << "it is closed at once";
  EXPECT_THAT(answer(first), StartsWith("HTTP/1.1 200"));
  second.Close();
  while (true) {  // until the second's end has been seen
    RawClient again(server.port());
    if (again.SendIfOpen(kGet) && again.Answer().starts_with("HTTP/1.1 200")) break;
  }
}

}  // namespace
}  // namespace tvq::gateway
