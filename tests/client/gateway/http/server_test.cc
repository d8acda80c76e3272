#include "client/gateway/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/gateway/http/signal.h"
#include "client/gateway/http/transport.h"
#include "tests/client/gateway/http/loopback.h"

namespace tvq::gateway {
namespace {

using asio::ip::make_address;
using testing::HasSubstr;
using testing::StartsWith;
using testing::UnorderedElementsAre;

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

TEST(HttpServerTest, AddressesShareTheMemory) {
  const auto handler = [](Exchange& exchange) -> asio::awaitable<void> {
    const bool held = exchange.Hold(100'000);
    Response response{.status = held ? 200 : 429};
    if (held) {
      const auto ended = std::make_shared<Signal>(exchange.executor());
      exchange.OnHangUp([ended] { ended->Notify(); });
      co_await exchange.Begin(std::move(response), std::nullopt);
      co_await ended->Wait();
    } else {
      co_await exchange.Respond(std::move(response));
    }
  };
  LoopbackServer server({.host = "0.0.0.0", .max_buffered_bytes = 1'000'000}, handler);
  const auto held = [](RawClient& client) {
    client.Send(kGet);
    return client.Receive(1000).starts_with("HTTP/1.1 200");
  };
  const auto soon_held = [&](RawClient& client) {  // when the last round has ended
    const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!held(client)) {
      if (std::chrono::steady_clock::now() > last) return false;
      std::this_thread::yield();
    }
    return true;
  };
  RawClient ninth(server.port());
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 8; ++i) {
      clients.push_back(std::make_unique<RawClient>(server.port()));
      ASSERT_TRUE(soon_held(*clients.back()));
    }
    EXPECT_FALSE(held(ninth)) << "they have the address's 7/8";
    RawClient other(server.port(), 0, "127.0.0.2");
    ASSERT_TRUE(soon_held(other));
    EXPECT_FALSE(held(ninth));
  }
}

TEST(HttpServerTest, RequestsWithoutAnAnswerAreToldThatItStops) {
  asio::io_context loop{1};
  std::promise<void> waits;
  // "GET" waits for what only a hang-up ends, "PUT" has begun its answer, "POST" reads its body.
  const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
    const std::string method = exchange.request().method;
    const auto ended = std::make_shared<Signal>(exchange.executor());
    exchange.OnHangUp([ended] { ended->Notify(); });
    if (method == "PUT") co_await exchange.Begin(Response(), std::nullopt);
    if (method == "POST") {
      const absl::StatusOr<std::string> body = co_await exchange.ReadPiece(100);
      EXPECT_TRUE(absl::IsUnavailable(body.status())) << body.status();
    } else {
      if (method == "GET") waits.set_value();
      co_await ended->Wait();
    }
    Response response{.status = 499};
    if (method != "PUT") co_await exchange.Respond(std::move(response));
  };
  std::vector<int> statuses;
  HttpServer server(
      loop, {},
      ConnectionHooks{.handler = handler,
                      .error =
                          [](int status, std::string_view message) {
                            return Response{.status = status, .body = std::string(message)};
                          },
                      .finished = [&](const auto& of) { statuses.push_back(of.status); }},
      [] { return nullptr; }, [](std::string_view) {});
  ASSERT_TRUE(server.ListenAt({{make_address("127.0.0.1"), 0}}).ok());
  std::thread thread([&] { loop.run(); });
  RawClient begun(server.port()), uploading(server.port()), waiting(server.port());
  begun.Send("PUT / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(begun.Receive(1000), StartsWith("HTTP/1.1 200"));
  uploading.Send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
  EXPECT_THAT(uploading.Receive(1000), StartsWith("HTTP/1.1 100"));
  waiting.Send(kGet);
  waits.get_future().wait();
  asio::post(loop, [&] {
    server.Stop([] {});
    server.StopNow();
  });
  for (RawClient* const client : {&waiting, &uploading}) {
    const std::string answer = client->Answer();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(answer, HasSubstr("the gateway stops"));
    client->Close();
  }
  EXPECT_EQ(begun.Receive(1), "");
  thread.join();
  EXPECT_THAT(statuses, UnorderedElementsAre(499, 503, 503));
}

// Waits until the client has gone, or the server stops.
asio::awaitable<void> AwaitHangUp(Exchange& exchange) {
  const auto ended = std::make_shared<Signal>(exchange.executor());
  exchange.OnHangUp([ended] { ended->Notify(); });
  co_await ended->Wait();
}

TEST(HttpServerTest, AnAnswerThatWasReadyIsSentWhenItStops) {
  for (const int status : {200, 201, 404, 499, 500}) {
    std::promise<void> waits;
    const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
      waits.set_value();
      co_await AwaitHangUp(exchange);
      co_await AwaitHangUp(exchange);  // a hook that comes later is told, too
      Response response{.status = status, .body = "ready"};
      co_await exchange.Respond(std::move(response));
    };
    LoopbackServer server({}, handler);
    RawClient client(server.port());
    client.Send(kGet);
    waits.get_future().wait();
    server.StopNow();
    const std::string answer = client.Answer();
    if (status < 499) {
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + std::to_string(status)));
      EXPECT_THAT(answer, HasSubstr("ready"));
    } else {
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 503")) << "its handler was cancelled";
      EXPECT_THAT(answer, HasSubstr("may be done"));
    }
  }
}

TEST(HttpServerTest, AHandlerThatGoesOnIsCancelledOnceAndItsConnectionEnds) {
  int cancelled = 0, cancelled_later = 0;
  std::promise<void> waits, waits_later;
  // Whatever it hears, it goes on until the client has gone; "PUT" has another hook then.
  const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
    const bool later = exchange.request().method == "PUT";
    if (later) {
      waits_later.set_value();
      co_await AwaitHangUp(exchange);
      exchange.OnHangUp([&] { ++cancelled_later; });
    } else {
      waits.set_value();
      exchange.OnHangUp([&] { ++cancelled; });
    }
    asio::steady_timer pause(exchange.executor());
    while (!exchange.gone()) {
      pause.expires_after(std::chrono::milliseconds(1));
      co_await pause.async_wait(kAwait);
    }
  };
  {
    LoopbackServer server({}, handler);
    RawClient client(server.port()), later(server.port());
    client.Send(kGet);
    later.Send("PUT / HTTP/1.1\r\nHost: h\r\n\r\n");
    waits.get_future().wait();
    waits_later.get_future().wait();
    server.StopNow();
    EXPECT_EQ(client.Receive(1), "");
    EXPECT_EQ(later.Receive(1), "");
  }
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(cancelled_later, 1);
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
