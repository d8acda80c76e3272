// Memory that runs out while a call on the server is under way: the call ends.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/gateway/api/services.h"
#include "client/gateway/upstream/call.h"
#include "tests/client/cpp/fake_server.h"
#include "tests/client/gateway/api/fake_exchange.h"

namespace tvq::gateway {
namespace {

// Gives the body, then throws at whatever follows.
class ThrowingExchange final : public FakeExchange {
 public:
  ThrowingExchange(asio::io_context& loop, std::string method, std::string path, std::string body)
      : FakeExchange(loop, std::move(method), std::move(path)), body_(std::move(body)) {}

  asio::awaitable<absl::StatusOr<std::string>> ReadPiece(size_t) override {
    if (body_.empty()) throw std::bad_alloc();
    co_return std::exchange(body_, "");
  }
  bool Hold(size_t) override { throw std::bad_alloc(); }
  bool HoldInstead(size_t) override { throw std::bad_alloc(); }
  std::string MemoryFull() const override { throw std::bad_alloc(); }
  asio::awaitable<void> Respond(Response) override { throw std::bad_alloc(); }
  asio::awaitable<bool> Begin(Response, std::optional<uint64_t>) override {
    throw std::bad_alloc();
  }
  asio::awaitable<bool> Write(std::string_view) override { throw std::bad_alloc(); }
  asio::awaitable<void> End() override { throw std::bad_alloc(); }

 private:
  std::string body_;
};

class ThrowingTest : public testing::Test {
 protected:
  ThrowingTest() {
    // Each goes on until it is cancelled.
    fake_.generation.generate = [](auto*, const auto&, auto* writer) {
      v1::GenerateResponse response;
      response.add_deltas()->set_text("a");
      while (writer->Write(response)) {
      }
      return grpc::Status::OK;
    };
    fake_.sessions.export_session = [](auto*, const auto&, auto* writer) {
      v1::ExportSessionResponse response;
      response.set_chunk("a");
      while (writer->Write(response)) {
      }
      return grpc::Status::OK;
    };
    fake_.sessions.import_session = [](auto*, auto* const& reader, auto*) {
      v1::ImportSessionRequest request;
      while (reader->Read(&request)) {
      }
      return grpc::Status::OK;
    };
    client::ConnectOptions options;
    options.address = fake_.address();
    auto upstream = Upstream::Open(options, 1, loop_.get_executor());
    EXPECT_TRUE(upstream.ok()) << upstream.status();
    upstream_ = *std::move(upstream);
  }

  // Whether the request fails, and its calls end.
  void Answer(const std::string& method, const std::string& path, const std::string& body) {
    Services services{.upstream = *upstream_,
                      .metrics = metrics_,
                      .beside = beside_,
                      .max_body_bytes = 1 << 20,
                      .version = ""};
    Router router;
    AddCompletions(services, &router);
    AddSnapshots(services, &router);
    const Router::Match match = router.Find(method, path);
    ASSERT_NE(match.handler, nullptr);
    {
      ThrowingExchange exchange(loop_, method, path, body);
      auto done = asio::co_spawn(loop_, (*match.handler)(exchange, match.fields), asio::use_future);
      loop_.restart();
      loop_.run();
      EXPECT_THROW(done.get(), std::bad_alloc) << path;
    }
    loop_.restart();
    const auto waiting = asio::make_work_guard(loop_);
    const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (OpenCalls::count() > 0 && std::chrono::steady_clock::now() < last) {
      loop_.run_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(OpenCalls::count(), 0) << path;
  }

  client::FakeServer fake_;
  asio::io_context loop_{1};
  std::unique_ptr<Upstream> upstream_;
  Metrics metrics_{"0"};
  SideThreads beside_{1};
};

TEST_F(ThrowingTest, CallsEndWithTheirRequest) {
  const std::string body = R"({"model": "m", "prompt": ["a", "b"], "n": 1)";
  Answer("POST", "/v1/completions", body + R"(, "stream": true})");
  Answer("POST", "/v1/completions", body + "}");
  Answer("GET", "/v1/sessions/s/export", "");
  Answer("POST", "/v1/sessions/import", "a");
}

}  // namespace
}  // namespace tvq::gateway
