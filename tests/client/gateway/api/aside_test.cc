#include "client/gateway/api/aside.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/thread_pool.hpp>
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
  asio::thread_pool beside(1);
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
  asio::thread_pool beside(1);
  const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
    const auto work = []() -> int { throw std::bad_alloc(); };
    co_await Aside(beside, exchange, 1 << 20, work);
  };
  LoopbackServer server({}, handler);
  RawClient client(server.port());
  client.Send(kGet);
  EXPECT_THAT(client.Answer(), StartsWith("HTTP/1.1 500"));
}

}  // namespace
}  // namespace tvq::gateway
