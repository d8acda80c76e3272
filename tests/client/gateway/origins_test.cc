#include "client/gateway/origins.h"

#include <gtest/gtest.h>

namespace tvq::gateway {
namespace {

using Page = Origins::Page;

TEST(OriginsTest, OwnPages) {
  const Origins origins("10.0.0.1", false, {"https://one.example", "http://two.example:8000"});
  EXPECT_EQ(origins.Of("", "evil.example"), Page::kOwn);  // no page
  for (const char* host : {"localhost:8000", "127.0.0.1:8000", "[::1]:8000", "10.0.0.1", "gateway",
                           "two.example:8000", "Two.Example:9000"}) {
    EXPECT_EQ(origins.Of(std::string("http://") + host, host), Page::kOwn) << host;
  }
  EXPECT_EQ(origins.Of("https://anything.example", "anything.example"), Page::kOwn);
}

TEST(OriginsTest, PagesElsewhere) {
  const Origins origins("10.0.0.1", false, {"https://one.example"});
  EXPECT_EQ(origins.Of("https://one.example", "10.0.0.1"), Page::kAllowed);
  for (const char* origin : {"http://one.example", "https://one.example:80", "null", "*",
                             "http://localhost", "10.0.0.1", "https://two.example"}) {
    EXPECT_EQ(origins.Of(origin, "10.0.0.1"), Page::kForeign) << origin;
  }
  EXPECT_TRUE(origins.vary());
  const Origins all("10.0.0.1", false, {"*"});
  EXPECT_EQ(all.Of("https://two.example", "10.0.0.1"), Page::kAllowed);
  EXPECT_FALSE(Origins("10.0.0.1", false, {}).vary());
}

TEST(OriginsTest, OriginsThatNoBrowserSends) {
  for (const char* origin : {"https://one.example", "http://one.example:8000", "http://[::1]:8000",
                             "https://one.example:80", "*", "null", "chrome-extension://abc"}) {
    EXPECT_EQ(WrongOrigin(origin), "") << origin;
  }
  for (const char* origin :
       {"", "one.example", "one.example:80", "https://", "://one.example", "https://one.example/",
        "https://one.example/page", "https://a@one.example", "https://One.example",
        "https://one.example:443", "http://one.example:80", "https://a b"}) {
    EXPECT_NE(WrongOrigin(origin), "") << origin;
  }
  EXPECT_EQ(WrongOrigin("https://one.example/"),
            "\"https://one.example/\" is no origin, must end with the host or the port");
}

TEST(OriginsTest, NamesThatStrangersOwn) {
  const Origins origins("127.0.0.1", false, {"http://mine.example"});
  for (const char* host : {"evil.example", "evil.example:8000", "localhost.evil.example",
                           "127.0.0.1.evil.example", "localhost."}) {
    EXPECT_EQ(origins.Of(std::string("http://") + host, host), Page::kForeign) << host;
    EXPECT_TRUE(origins.IsRebound(host)) << host;
  }
  for (const char* host : {"", "localhost", "localhost:1", "127.0.0.1:8000", "[::1]:80", "::1",
                           "192.168.0.7", "mine.example:8000"}) {
    EXPECT_FALSE(origins.IsRebound(host)) << host;
  }
  // Others reach it by names that it does not know, or its certificate keeps strangers' away.
  EXPECT_FALSE(Origins("0.0.0.0", false, {}).IsRebound("evil.example"));
  EXPECT_FALSE(Origins("127.0.0.1", true, {}).IsRebound("evil.example"));
  EXPECT_FALSE(Origins("127.0.0.1", false, {"*"}).IsRebound("evil.example"));
}

}  // namespace
}  // namespace tvq::gateway
