// What an export takes of the gateway's memory.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "client/gateway/api/services.h"
#include "tests/client/cpp/fake_server.h"
#include "tests/client/gateway/api/fake_exchange.h"

namespace tvq::gateway {
namespace {

constexpr size_t kChunk = 1000;

// Of a snapshot of so many chunks.
size_t HeldByExport(size_t chunks) {
  client::FakeServer server;
  server.sessions.export_session = [chunks](auto*, const auto&, auto* writer) {
    v1::ExportSessionResponse response;
    response.set_total_bytes(static_cast<int64_t>(chunks * kChunk));
    response.set_chunk(std::string(kChunk, 'a'));
    for (size_t i = 0; i < chunks; ++i) writer->Write(response);
    return grpc::Status::OK;
  };
  asio::io_context loop{1};
  client::ConnectOptions options;
  options.address = server.address();
  const auto upstream = Upstream::Open(options, 1, loop.get_executor());
  EXPECT_TRUE(upstream.ok()) << upstream.status();
  Metrics metrics("0");
  SideThreads beside(1);
  Services services{.upstream = **upstream,
                    .metrics = metrics,
                    .beside = beside,
                    .max_body_bytes = 1 << 20,
                    .version = ""};
  Router router;
  AddSnapshots(services, &router);
  FakeExchange exchange(loop, "GET", "/v1/sessions/s/export");
  const Router::Match match = router.Find("GET", "/v1/sessions/s/export");
  asio::co_spawn(loop, (*match.handler)(exchange, match.fields), asio::detached);
  loop.run();
  EXPECT_EQ(exchange.written.size(), chunks * kChunk);
  return exchange.held;
}

TEST(SnapshotsTest, AnExportHoldsTwoChunksOrAllThereIs) {
  EXPECT_EQ(HeldByExport(5), 2 * kChunk);
  EXPECT_EQ(HeldByExport(1), kChunk);
}

}  // namespace
}  // namespace tvq::gateway
