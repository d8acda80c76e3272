#include "client/gateway/api/aside.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <new>
#include <string>
#include <thread>

#include "tests/client/gateway/http/loopback.h"

namespace tvq::gateway {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

TEST(AsideTest, LongWorkIsDoneByAnotherThread) {
  SideThreads beside(1);
  const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
    const auto thread = [] { return std::this_thread::get_id(); };
    const auto loop = std::this_thread::get_id();
    const auto little = co_await Aside(beside, exchange, 10, thread);
    const auto much = co_await Aside(beside, exchange, 1 << 20, thread);
    Response response{.body = little == loop && much != loop ? "well" : "wrong"};
    co_await exchange.Respond(std::move(response));
  };
  LoopbackServer server({}, handler);
  RawClient client(server.port());
  client.Send(kGet);
  EXPECT_THAT(client.Answer(), HasSubstr("well"));
}

TEST(AsideTest, WhatIsThrownReachesTheHandler) {
  SideThreads beside(1);
  const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
    const auto work = []() -> int { throw std::bad_alloc(); };
    co_await Aside(beside, exchange, 1 << 20, work);
  };
  LoopbackServer server({}, handler);
  RawClient client(server.port());
  client.Send(kGet);
  EXPECT_THAT(client.Answer(), StartsWith("HTTP/1.1 500"));
}

TEST(AsideTest, NothingIsDoneForAClientThatHasGone) {
  SideThreads beside(1);
  std::promise<void> free;
  beside.Schedule(nullptr, 1, [&] { free.get_future().wait(); });
  std::atomic<bool> worked = false;
  Exchange* waiting = nullptr;
  const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
    if (exchange.request().path == "/wait") {
      waiting = &exchange;
      const auto work = [&] {
        worked = true;
        return 0;
      };
      co_await Aside(beside, exchange, 1 << 20, work);
    }
    Response response{.body = waiting == nullptr ? "" : waiting->gone() ? "gone" : "there"};
    co_await exchange.Respond(std::move(response));
  };
  LoopbackServer server({}, handler);
  RawClient client(server.port());
  client.Send("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
  RawClient other(server.port());
  std::string seen;
  for (const char* state : {"there", "gone"}) {
    do {
      other.Send(kGet);
      seen = other.Answer();
    } while (!seen.empty() && !seen.ends_with(state));
    client.Close();
  }
  free.set_value();
  std::promise<void> after;
  beside.Schedule(nullptr, 1 << 21, [&] { after.set_value(); });
  after.get_future().wait();
  EXPECT_FALSE(worked);
}

}  // namespace
}  // namespace tvq::gateway
