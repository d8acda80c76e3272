#include "client/gateway/http/incoming.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tvq::gateway {
namespace {

// Reads what the test gives, and tells how much was asked for.
class FakeTransport final : public Transport {
 public:
  asio::awaitable<ErrorCode> Handshake() override { co_return ErrorCode(); }
  void ReadSome(asio::mutable_buffer buffer, OnRead done) override {
    asked.push_back(buffer.size());
    buffer_ = buffer;
    done_ = std::move(done);
  }
  size_t WriteNow(asio::const_buffer) override { return 0; }
  asio::awaitable<ErrorCode> Write(asio::const_buffer) override { co_return ErrorCode(); }
  void HalfClose() override {}
  asio::awaitable<void> Finish() override { co_return; }
  bool OtherSideEnded() override { return ended; }
  void Cancel() override {}
  void Close() override {}
  void Reset() override {}

  bool reads() const { return static_cast<bool>(done_); }
  void Give(const std::string& bytes) {
    ASSERT_LE(bytes.size(), buffer_.size());
    std::memcpy(buffer_.data(), bytes.data(), bytes.size());
    std::exchange(done_, nullptr)(ErrorCode(), bytes.size());
  }
  void Fail() { std::exchange(done_, nullptr)(asio::error::connection_reset, 0); }

  std::vector<size_t> asked;
  bool ended = false;

 private:
  asio::mutable_buffer buffer_;
  OnRead done_;
};

class IncomingTest : public testing::Test {
 protected:
  // Starts to wait for more; `more_` is what came of it.
  void More(size_t wanted) {
    more_.reset();
    asio::co_spawn(
        loop_,
        [this, wanted]() -> asio::awaitable<void> {
          const bool more = co_await incoming_->More(wanted);
          more_ = more;
        },
        asio::detached);
    Poll();
  }
  void Poll() {
    loop_.restart();
    loop_.poll();
  }
  void Give(const std::string& bytes) {
    transport_->Give(bytes);
    Poll();
  }

  asio::io_context loop_{1};
  const std::shared_ptr<FakeTransport> transport_ = std::make_shared<FakeTransport>();
  const std::shared_ptr<Incoming> incoming_ =
      std::make_shared<Incoming>(transport_, loop_.get_executor());
  std::optional<bool> more_;
};

// Thousands may send a header byte by byte.
TEST_F(IncomingTest, LittleIsAskedForWhereLittleIsWanted) {
  for (int i = 0; i < 100; ++i) {
    More(2048);
    Give("x");
    EXPECT_EQ(more_, true);
  }
  EXPECT_EQ(incoming_->bytes(), std::string(100, 'x'));
  EXPECT_LE(*std::max_element(transport_->asked.begin(), transport_->asked.end()), 2048);
  incoming_->Consume(100);
  More(65536);
  EXPECT_GE(transport_->asked.back(), 32768);
  Give("y");
  incoming_->Consume(1);
  More(2048);
  EXPECT_LE(transport_->asked.back(), 2048);
  Give("z");
}

TEST_F(IncomingTest, KeepsWhatWasNotConsumed) {
  More(10);
  Give("abcdef");
  incoming_->Consume(2);
  More(10);
  Give("gh");
  EXPECT_EQ(incoming_->bytes(), "cdefgh");
  More(10);
  transport_->Fail();
  Poll();
  EXPECT_EQ(more_, false);
  EXPECT_EQ(incoming_->bytes(), "cdefgh");
}

TEST_F(IncomingTest, WatchReadsAheadABoundedNumberOfBytes) {
  int ended = 0;
  incoming_->Watch([&] { ++ended; });
  size_t given = 0;
  while (transport_->reads()) {
    ASSERT_LT(given, 10'000);
    given += 500;
    Give(std::string(500, 'x'));
  }
  EXPECT_EQ(incoming_->bytes().size(), given);
  EXPECT_EQ(ended, 0);
  transport_->ended = true;
  loop_.restart();
  loop_.run();  // until it has looked
  EXPECT_EQ(ended, 1);
}

TEST_F(IncomingTest, WatchTellsOnceOfAnError) {
  int ended = 0;
  incoming_->Watch([&] { ++ended; });
  transport_->Fail();
  Poll();
  EXPECT_EQ(ended, 1);
  incoming_->Watch([&] { ++ended; });
  EXPECT_EQ(ended, 2);
}

TEST_F(IncomingTest, NothingIsToldAfterUnwatch) {
  bool ended = false;
  incoming_->Watch([&] { ended = true; });
  incoming_->Unwatch();
  More(10);
  transport_->Fail();
  Poll();
  EXPECT_EQ(more_, false);
  EXPECT_FALSE(ended);
}

}  // namespace
}  // namespace tvq::gateway
