// The gateway's own questions to the server.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/gateway/api/services.h"

namespace tvq::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(ServerWatchTest, StopEndsAQuestionUnderWay) {
  asio::io_context loop{1};
  using asio::ip::tcp;
  tcp::acceptor silent(loop,
                       tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0));  // says nothing
  client::ConnectOptions options;
  options.address = absl::StrCat("127.0.0.1:", silent.local_endpoint().port());
  const auto upstream = Upstream::Open(options, 1, loop.get_executor());
  ASSERT_TRUE(upstream.ok()) << upstream.status();
  Metrics metrics("0");
  SideThreads beside(1);
  Services services{.upstream = **upstream,
                    .metrics = metrics,
                    .beside = beside,
                    .max_body_bytes = 1 << 20,
                    .version = ""};
  ServerWatch watch(services, loop.get_executor());
  asio::co_spawn(loop, watch.Run(), asio::detached);
  asio::steady_timer timer(loop, milliseconds(50));
  timer.async_wait([&watch](const auto&) { watch.Stop(); });
  const auto begun = steady_clock::now();
  loop.run();
  EXPECT_LT(steady_clock::now() - begun, milliseconds(1500)) << "a question waits for 2 seconds";
}

}  // namespace
}  // namespace tvq::gateway
