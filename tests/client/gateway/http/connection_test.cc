#include "client/gateway/http/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/gateway/http/signal.h"
#include "tests/client/gateway/http/loopback.h"

namespace tvq::gateway {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
constexpr std::chrono::seconds kPatience{60};

std::string Post(const std::string& length, const std::string& body) {
  return "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + length + "\r\n\r\n" + body;
}

// Waits until the client has gone, or the server stops.
asio::awaitable<void> AwaitHangUp(Exchange& exchange) {
  const auto ended = std::make_shared<Signal>(exchange.executor());
  exchange.OnHangUp([ended] { ended->Notify(); });
  co_await ended->Wait();
}

TEST(ConnectionTest, HangUpIsToldToAHookThatComesLater) {
  std::promise<bool> told;
  const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
    co_await AwaitHangUp(exchange);
    bool called = false;
    exchange.OnHangUp([&called] { called = true; });
    told.set_value(called);
  };
  LoopbackServer server({}, handler);
  RawClient client(server.port());
  client.Send(kGet);
  client.Close();
  auto future = told.get_future();
  ASSERT_EQ(future.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(future.get());
}

// 30 kB are more than are read ahead, and no more than the kernel takes: it tells of the end.
TEST(ConnectionTest, HangUpBehindRequestsThatWait) {
  for (const size_t ahead : {0, 3'000, 30'000}) {
    std::promise<void> gone;
    const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
      co_await AwaitHangUp(exchange);
      gone.set_value();
    };
    LoopbackServer server({}, handler);
    RawClient client(server.port());
    client.Send(std::string(kGet) + std::string(ahead, 'x'));
    client.Close();
    EXPECT_EQ(gone.get_future().wait_for(kPatience), std::future_status::ready) << ahead;
  }
}

TEST(ConnectionTest, RequestsThatWaitAreAnsweredInTheirOrder) {
  const auto handler = [](Exchange& exchange) -> asio::awaitable<void> {
    exchange.OnHangUp([] {});
    const absl::StatusOr<std::string> body = co_await exchange.ReadPiece(1 << 20);
    Response response{.body = body.value_or("error").substr(0, 4)};
    co_await exchange.Respond(std::move(response));
  };
  LoopbackServer server({}, handler);
  RawClient client(server.port());
  std::string requests;
  for (int i = 1000; i < 1200; ++i) {
    const std::string body = std::to_string(i) + std::string(static_cast<size_t>(i) * 3, 'x');
    requests += Post(std::to_string(body.size()), body);
  }
  client.Send(requests);
  for (int i = 1000; i < 1200; ++i) ASSERT_THAT(client.Answer(), HasSubstr(std::to_string(i)));
}

asio::awaitable<void> SayBodySize(Exchange& exchange) {
  const absl::StatusOr<std::string> body = co_await exchange.ReadPiece(1 << 20);
  Response response{.status = body.ok() ? 200 : 429};
  response.body = body.ok() ? std::to_string(body->size()) : std::string(body.status().message());
  co_await exchange.Respond(std::move(response));
}

TEST(ConnectionTest, OnlyBytesThatCameCountAgainstTheBudget) {
  LoopbackServer server({.max_buffered_bytes = 1000}, SayBodySize);
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(std::make_unique<RawClient>(server.port()));
    silent.back()->Send(Post("900", ""));
  }
  RawClient client(server.port());
  client.Send(Post("900", std::string(900, 'x')));
  EXPECT_THAT(client.Answer(), StartsWith("HTTP/1.1 200"));
  client.Send(Post("1001", std::string(1001, 'x')));
  EXPECT_THAT(client.Answer(), StartsWith("HTTP/1.1 429"));
  for (const auto& other : silent) {
    other->Send(std::string(900, 'x'));
    EXPECT_THAT(other->Answer(), HasSubstr("\r\n\r\n900"));
  }
}

// While they come, and while the request has its answer made.
TEST(ConnectionTest, LongHeadersCountAgainstTheBudget) {
  std::promise<void> held;
  const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
    if (exchange.request().path == "/held") {
      held.set_value();
      co_await AwaitHangUp(exchange);
    }
    Response response;
    co_await exchange.Respond(std::move(response));
  };
  LoopbackServer server({.max_buffered_bytes = 40'000}, handler);
  const std::string headers = " HTTP/1.1\r\nHost: h\r\nX: " + std::string(12'000, 'x') + "\r\n\r\n";
  const auto ask = [&](const std::string& request) {
    RawClient client(server.port());
    client.Send(request);
    return client.Answer().substr(0, 12);
  };
  EXPECT_EQ(ask("GET /" + headers), "HTTP/1.1 200");
  RawClient client(server.port());
  client.Send("GET /held" + headers);
  ASSERT_EQ(held.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(ask("GET /" + headers), "HTTP/1.1 429");
  EXPECT_EQ(ask(std::string(kGet)), "HTTP/1.1 200");
  client.Close();
  while (ask("GET /" + headers) != "HTTP/1.1 200") std::this_thread::yield();
}

// Its slow pieces would each be in time.
TEST(ConnectionTest, ABodyHasADeadlineAsAWhole) {
  HttpOptions options;
  options.limits.body_timeout = std::chrono::milliseconds(2000);
  options.limits.min_body_rate = size_t{100} << 20;
  const auto handler = [](Exchange& exchange) -> asio::awaitable<void> {
    const absl::StatusOr<std::string> body = co_await exchange.ReadPiece(64 << 20);
    Response response{.status = body.ok() ? 200 : 408};
    co_await exchange.Respond(std::move(response));
  };
  LoopbackServer server(options, handler);
  for (const int pause : {0, 350}) {
    RawClient client(server.port());
    client.Send(Post(std::to_string(8 << 20), ""));
    for (int i = 0; i < 8; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause));
      client.Send(std::string(1 << 20, 'x'));
    }
    EXPECT_THAT(client.Answer(), StartsWith(pause == 0 ? "HTTP/1.1 200" : "HTTP/1.1 408"));
  }
}

// A large one that stays is not in the way of small ones.
TEST(ConnectionTest, SmallBodiesHaveMemoryOfTheirOwn) {
  constexpr size_t kLarge = 1'900'000;
  std::promise<void> held;
  const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
    const absl::StatusOr<std::string> body = co_await exchange.ReadPiece(2 << 20);
    if (body.ok() && body->size() == kLarge) {
      held.set_value();
      co_await AwaitHangUp(exchange);
    }
    Response response{.status = body.ok() ? 200 : 429};
    co_await exchange.Respond(std::move(response));
  };
  LoopbackServer server({.max_buffered_bytes = 2 << 20}, handler);
  RawClient large(server.port());
  large.Send(Post(std::to_string(kLarge), std::string(kLarge, 'x')));
  ASSERT_EQ(held.get_future().wait_for(kPatience), std::future_status::ready);
  for (const size_t size : {100'000, 60'000}) {
    RawClient client(server.port());
    client.Send(Post(std::to_string(size), std::string(size, 'x')));
    EXPECT_THAT(client.Answer(), StartsWith(size > 64 << 10 ? "HTTP/1.1 429" : "HTTP/1.1 200"));
  }
}

// A body that was used gives its place to others while its answer is still being made.
TEST(ConnectionTest, UsedBodiesGiveTheirPlaceBack) {
  std::optional<asio::any_io_executor> loop;
  std::unique_ptr<Signal> go;
  const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
    const absl::StatusOr<std::string> body = co_await exchange.ReadPiece(1 << 20);
    if (body.ok()) exchange.BodyDone();
    if (go == nullptr) {
      go = std::make_unique<Signal>(exchange.executor());
      co_await go->Wait();
    } else {
      go->Notify();
    }
    Response response{.status = body.ok() ? 200 : 429};
    co_await exchange.Respond(std::move(response));
  };
  LoopbackServer server({.max_buffered_bytes = 1000}, handler);
  RawClient first(server.port());
  RawClient second(server.port());
  first.Send(Post("900", std::string(900, 'x')));
  second.Send(Post("900", std::string(900, 'x')));
  EXPECT_THAT(first.Answer(), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(second.Answer(), StartsWith("HTTP/1.1 200"));
}

TEST(ConnectionTest, WhatAnAnswerHoldsIsGivenBackWithIt) {
  const auto handler = [](Exchange& exchange) -> asio::awaitable<void> {
    const bool held = exchange.Hold(600);
    const bool held_more = exchange.Hold(600);
    Response response{.status = held && !held_more ? 200 : 500, .body = exchange.MemoryFull()};
    co_await exchange.Respond(std::move(response));
  };
  LoopbackServer server({.max_buffered_bytes = 1000}, handler);
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.Send(kGet);
    const std::string answer = client.Answer();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(answer, HasSubstr("600 bytes of the gateway's 1000, 600 of them this address's"));
  }
}

// What the client still sends is read, or the kernel would reset the connection and take an answer
// with it that is on its way.
TEST(ConnectionTest, ReadsOnAfterATimeout) {
  HttpOptions options;
  options.limits.header_timeout = std::chrono::milliseconds(50);
  LoopbackServer server(options, SayBodySize);
  RawClient client(server.port());
  client.Send("GET / HTTP/1.1\r\n");
  EXPECT_THAT(client.Answer(), StartsWith("HTTP/1.1 408"));
  EXPECT_EQ(client.Receive(1), "") << "the server has ended its side";
  for (int i = 0; i < 5; ++i) {
    client.Send("X: y\r\n");  // fails after a reset
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// It takes longer than the time-out in all, but never for a piece.
TEST(ConnectionTest, SlowReaderThatGoesOnGetsAll) {
  const std::string body(size_t{12} << 20, 'x');
  HttpOptions options;
  options.limits.write_timeout = std::chrono::milliseconds(2000);
  const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
    Response response{.body = body};
    co_await exchange.Respond(std::move(response));
  };
  LoopbackServer server(options, handler);
  RawClient client(server.port(), 1 << 16);
  client.Send(std::string(kGet));
  size_t received = 0;
  while (received < body.size()) {
    const size_t piece = client.Receive(1 << 15).size();
    if (piece == 0) break;
    received += piece;
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
  }
  EXPECT_GE(received, body.size());
}

TEST(ConnectionTest, HandlerThatThrows) {
  const auto handler = [](Exchange& exchange) -> asio::awaitable<void> {
    if (exchange.request().path == "/throw") throw std::bad_alloc();
    Response response{.body = "well"};
    co_await exchange.Respond(std::move(response));
  };
  LoopbackServer server({}, handler);
  RawClient client(server.port());
  client.Send("GET /throw HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(client.Answer(), StartsWith("HTTP/1.1 500"));
  RawClient other(server.port());
  other.Send(kGet);
  EXPECT_THAT(other.Answer(), HasSubstr("well"));
}

// As where memory is too short for an answer to what is no request.
TEST(ConnectionTest, ConnectionThatThrowsEndsAlone) {
  LoopbackServer server({}, SayBodySize);
  RawClient client(server.port());
  client.Send("nonsense\r\n\r\n");
  EXPECT_EQ(client.Answer(), "");
  RawClient other(server.port());
  other.Send(kGet);
  EXPECT_THAT(other.Answer(), StartsWith("HTTP/1.1 200"));
}

TEST(ConnectionTest, AcceptsAgainAfterAThrow) {
  int asked = 0;
  const auto tls = [&]() -> std::shared_ptr<asio::ssl::context> {
    if (++asked == 1) throw std::bad_alloc();
    return nullptr;
  };
  LoopbackServer server({}, SayBodySize, tls);
  RawClient first(server.port());
  EXPECT_EQ(first.Answer(), "");
  RawClient second(server.port());
  second.Send(kGet);
  EXPECT_THAT(second.Answer(), StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace tvq::gateway
