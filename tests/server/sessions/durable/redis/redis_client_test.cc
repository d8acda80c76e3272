#include "server/sessions/durable/redis/redis_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/server/sessions/redis_process.h"
#include "tests/server/sessions/redis_proxy.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

class RedisClientTest : public ::testing::Test {
 protected:
  absl::Status Ping() {
    auto connection = client_.BorrowForQuery();
    return connection.ok() ? (*connection)->Call({"PING"}).status() : connection.status();
  }
  // How many of many callers at the same time are answered.
  int PingFromManyThreads() {
    std::atomic<int> answered = 0;
    std::vector<std::thread> callers;
    callers.reserve(16);
    for (int i = 0; i < 16; ++i) {
      callers.emplace_back([&] {
        const absl::Status status = Ping();
        if (status.ok()) ++answered;
        EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
      });
    }
    for (std::thread& caller : callers) caller.join();
    return answered;
  }

  RedisProcess redis_;
  RedisProxy proxy_{redis_.socket()};
  RedisClient client_{
      *ParseRedisUrl(proxy_.url()),
      {.connect = absl::Seconds(60), .progress = absl::Seconds(60), .query = absl::Seconds(1)}};
};

TEST_F(RedisClientTest, OneCallerTriesARedisThatHangs) {
  EXPECT_TRUE(Ping().ok());
  redis_.Freeze();
  const absl::Status late = Ping();
  EXPECT_TRUE(absl::IsUnavailable(late)) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("in time"));
  for (int round = 0; round < 2; ++round) {
    const int before = proxy_.connections();
    EXPECT_EQ(PingFromManyThreads(), 0);
    EXPECT_LE(proxy_.connections(), before + 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  }
  redis_.Thaw();
  absl::Status status;
  for (int i = 0; i < 100; ++i) {
    status = Ping();
    if (status.ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(PingFromManyThreads(), 16);
}

TEST_F(RedisClientTest, ConnectsAgainAtOnceWhereNobodyHangs) {
  EXPECT_TRUE(Ping().ok());
  redis_.Kill();
  EXPECT_TRUE(absl::IsUnavailable(Ping()));
  redis_.Start();
  EXPECT_TRUE(Ping().ok());
}

// Redis answers before it is asked, and closes; whether this side notices at its first command or
// later depends on the network.
TEST(RedisConnectionTest, TellsWhyRedisHungUp) {
  const RedisProcess redis;
  redis.Cli("CONFIG SET maxclients 1");
  const RedisAddress address = *ParseRedisUrl(redis.url());
  RedisConnection first(address, {});
  ASSERT_TRUE(first.Connect().ok());
  ASSERT_TRUE(first.Call({"PING"}).ok());
  RedisConnection second(address, {});
  ASSERT_TRUE(second.Connect().ok());
  const std::vector<std::string_view> ping = {"PING"};
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    status = second.Send(ping);
  }
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("too many clients"));
  EXPECT_FALSE(second.reusable());
}

}  // namespace
}  // namespace tvq
