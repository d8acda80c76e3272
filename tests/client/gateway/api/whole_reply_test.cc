#include "client/gateway/api/whole_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace tvq::gateway {
namespace {

using testing::HasSubstr;

constexpr size_t kPerByte = 5;

// With so much memory for answers; keeps the answer.
class BudgetedExchange final : public Exchange {
 public:
  BudgetedExchange(asio::io_context& loop, size_t budget) : loop_(loop), free_(budget) {}

  const Request& request() const override { return request_; }
  const std::string& request_id() const override { return id_; }
  std::chrono::steady_clock::time_point started() const override { return {}; }
  asio::any_io_executor executor() const override { return loop_.get_executor(); }
  const std::shared_ptr<Peer>& peer() const override { return peer_; }
  void set_route(std::string_view) override {}
  void AddHeader(Header) override {}
  std::optional<uint64_t> content_length() const override { return std::nullopt; }
  asio::awaitable<absl::StatusOr<std::string>> ReadPiece(size_t) override { co_return ""; }
  void BodyDone() override {}
  bool Hold(size_t bytes) override {
    if (bytes > free_) return false;
    free_ -= bytes;
    held += bytes;
    return true;
  }
  bool HoldInstead(size_t bytes) override {
    free_ += std::exchange(held, 0);
    return Hold(bytes);
  }
  std::string MemoryFull() const override { return "so much is taken"; }
  void OnHangUp(absl::AnyInvocable<void()>) override {}
  bool gone() const override { return false; }
  asio::awaitable<void> Respond(Response response) override {
    answer = std::move(response);
    held_when_sent = held;
    co_return;
  }
  asio::awaitable<bool> Begin(Response, std::optional<uint64_t>) override { co_return true; }
  asio::awaitable<bool> Write(std::string_view) override { co_return true; }
  asio::awaitable<void> End() override { co_return; }
  void Abort() override {}
  bool begun() const override { return false; }

  size_t held = 0;
  size_t held_when_sent = 0;
  Response answer;

 private:
  asio::io_context& loop_;
  size_t free_;
  Request request_;
  const std::string id_ = "r";
  const std::shared_ptr<Peer> peer_ = std::make_shared<Peer>();
};

// A reply of the server whose copies are counted.
struct Reply {
  explicit Reply(size_t bytes = 0) : bytes(bytes) {}
  size_t ByteSizeLong() const { return bytes; }

  size_t bytes;
  std::shared_ptr<int> memory = std::make_shared<int>(0);
};

class WholeReplyTest : public testing::Test {
 protected:
  // Answers a reply of so many bytes with so many of JSON.
  void Answer(BudgetedExchange& exchange, size_t bytes, size_t json) {
    const auto write = [&, json](const Reply& reply) {
      ++written_;
      held_while_written_ = exchange.held;
      memory_ = reply.memory;
      return std::string(json, '1');
    };
    auto done =
        asio::co_spawn(loop_, RespondWith(services_, exchange, Reply(bytes), kPerByte, write, 201),
                       asio::use_future);
    loop_.run();
    done.get();
  }

  asio::io_context loop_{1};
  SideThreads beside_{1};
  Metrics metrics_{"0"};
  std::unique_ptr<Upstream> upstream_ =
      *Upstream::Open({.address = "127.0.0.1:1"}, 1, loop_.get_executor());
  Services services_{.upstream = *upstream_,
                     .metrics = metrics_,
                     .beside = beside_,
                     .max_body_bytes = 0,
                     .version = ""};
  BudgetedExchange exchange_{loop_, 1'000'000};
  int written_ = 0;
  size_t held_while_written_ = 0;
  std::weak_ptr<int> memory_;  // of the reply
};

TEST_F(WholeReplyTest, CountsWhatIsInMemory) {
  for (const size_t bytes : {size_t{100}, 2 * kHereBytes}) {
    BudgetedExchange exchange(loop_, 1'000'000);
    loop_.restart();
    Answer(exchange, bytes, 300);
    EXPECT_EQ(exchange.answer.status, 201);
    EXPECT_EQ(exchange.answer.body, std::string(300, '1'));
    EXPECT_EQ(held_while_written_, bytes * kPerByte);
    EXPECT_EQ(exchange.held_when_sent, 300u) << "while a slow client reads, its JSON alone is left";
    EXPECT_TRUE(memory_.expired());
  }
}

TEST_F(WholeReplyTest, RefusesWhatTheMemoryHasNoRoomFor) {
  Answer(exchange_, 1'000'000 / kPerByte + 1, 300);
  EXPECT_EQ(exchange_.answer.status, 429);
  EXPECT_THAT(exchange_.answer.body, HasSubstr("so much is taken"));
  EXPECT_EQ(written_, 0);
}

TEST_F(WholeReplyTest, RefusesJsonThatIsLargerThanThought) {
  Answer(exchange_, 100, 1'000'001);
  EXPECT_EQ(exchange_.answer.status, 429);
  EXPECT_THAT(exchange_.answer.body, HasSubstr("so much is taken"));
  EXPECT_EQ(exchange_.held_when_sent, 0u);
}

TEST_F(WholeReplyTest, RefusesWhatIsTooLarge) {
  BudgetedExchange exchange(loop_, kMaxAnswerBytes * kPerByte * 2);
  Answer(exchange, kMaxAnswerBytes + 1, 300);
  EXPECT_EQ(exchange.answer.status, 413);
  EXPECT_EQ(written_, 0);
}

}  // namespace
}  // namespace tvq::gateway
