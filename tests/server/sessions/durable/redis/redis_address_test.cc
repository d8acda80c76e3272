#include "server/sessions/durable/redis/redis_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tvq {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RedisAddress, ReadsEveryPart) {
  const RedisAddress address = ParseRedisUrl("redis://me:p%40s%2fs@cache.example:7000/3").value();
  EXPECT_EQ(address.host, "cache.example");
  EXPECT_EQ(address.port, 7000);
  EXPECT_EQ(address.user, "me");
  EXPECT_EQ(address.password, "p@s/s");
  EXPECT_EQ(address.database, 3);
  EXPECT_EQ(address.Display(), "redis://cache.example:7000/3");
}

TEST(RedisAddress, HasDefaults) {
  const RedisAddress address = ParseRedisUrl("redis://127.0.0.1").value();
  EXPECT_EQ(address.port, 6379);
  EXPECT_EQ(address.user, "");
  EXPECT_EQ(address.password, "");
  EXPECT_EQ(address.database, 0);
  EXPECT_EQ(ParseRedisUrl("redis://:secret@localhost/")->password, "secret");
}

TEST(RedisAddress, ReadsIpv6) {
  const RedisAddress address = ParseRedisUrl("redis://[::1]:7000").value();
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.port, 7000);
  EXPECT_EQ(address.Display(), "redis://[::1]:7000/0");
  EXPECT_EQ(ParseRedisUrl("redis://[fe80::1]")->port, 6379);
}

TEST(RedisAddress, ReadsUnixSockets) {
  const RedisAddress address = ParseRedisUrl("unix:///run/a@b:c/redis.sock").value();
  EXPECT_EQ(address.host, "");
  EXPECT_EQ(address.socket_path, "/run/a@b:c/redis.sock");
  EXPECT_EQ(address.Display(), "unix:///run/a@b:c/redis.sock");
  EXPECT_EQ(ParseRedisUrl("unix://me:secret@/run/redis.sock")->socket_path, "/run/redis.sock");
  EXPECT_EQ(ParseRedisUrl("unix://me:secret@/run/redis.sock")->password, "secret");
}

TEST(RedisAddress, RefusesTheRestWithoutShowingPasswords) {
  for (const char* url : {"",
                          "redis",
                          "http://:secret@h",
                          "redis://",
                          "redis://:secret@",
                          "redis://:secret@h:0",
                          "redis://:secret@h:65536",
                          "redis://:secret@h:port",
                          "redis://:secret@h/one",
                          "redis://:secret@h/-1",
                          "redis://secret@h",
                          "redis://me:@h",
                          "redis://:secret%4@h",
                          "redis://:secret%zz@h",
                          "redis://:secret@[::1",
                          "redis://:secret@[::1]x",
                          "unix://",
                          "unix:///",
                          "unix://secret",
                          "unix://:secret@redis.sock"}) {
    const absl::Status status = ParseRedisUrl(url).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << url;
    EXPECT_THAT(std::string(status.message()), HasSubstr("redis://[user:password@]host"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  }
}

TEST(RedisAddress, RefusesTlsSayingWhatServes) {
  const absl::Status status = ParseRedisUrl("rediss://:secret@host").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("TLS"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace tvq
