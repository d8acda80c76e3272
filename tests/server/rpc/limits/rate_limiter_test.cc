#include "server/rpc/limits/rate_limiter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace tvq {
namespace {

using std::chrono::milliseconds;

const RateLimiter::Time kStart{std::chrono::hours(1)};

TEST(RateLimiterTest, ZeroIsNoLimit) {
  RateLimiter limiter(0);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(limiter.Take("ana", kStart), std::nullopt);
}

TEST(RateLimiterTest, GrantsASecondsWorthAtOnceThenOneAtATime) {
  RateLimiter limiter(4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(limiter.Take("ana", kStart), std::nullopt) << i;
  EXPECT_EQ(limiter.Take("ana", kStart), milliseconds(250));
  EXPECT_EQ(limiter.Take("ana", kStart + milliseconds(100)), milliseconds(150));
  EXPECT_EQ(limiter.Take("ana", kStart + milliseconds(250)), std::nullopt);
  EXPECT_EQ(limiter.Take("ana", kStart + milliseconds(250)), milliseconds(250));
}

TEST(RateLimiterTest, KeepsNoMoreThanASecondsWorth) {
  RateLimiter limiter(2);
  EXPECT_EQ(limiter.Take("ana", kStart), std::nullopt);
  const auto later = kStart + std::chrono::hours(24);
  EXPECT_EQ(limiter.Take("ana", later), std::nullopt);
  EXPECT_EQ(limiter.Take("ana", later), std::nullopt);
  EXPECT_NE(limiter.Take("ana", later), std::nullopt);
}

TEST(RateLimiterTest, OwnersDoNotShare) {
  RateLimiter limiter(1);
  EXPECT_EQ(limiter.Take("ana", kStart), std::nullopt);
  EXPECT_NE(limiter.Take("ana", kStart), std::nullopt);
  EXPECT_EQ(limiter.Take("ben", kStart), std::nullopt);
}

// There are more addresses than anyone could keep.
TEST(RateLimiterTest, ForgetsOwnersThatMayCallAsAnyOther) {
  RateLimiter limiter(1);
  for (int i = 0; i < 10'000; ++i) {
    const auto now = kStart + i * milliseconds(10);
    EXPECT_EQ(limiter.Take(std::to_string(i), now), std::nullopt);
    EXPECT_NE(limiter.Take(std::to_string(i), now), std::nullopt);
  }
  EXPECT_LE(limiter.size(), 1000U);
}

TEST(RateLimiterTest, LessThanOneInASecond) {
  RateLimiter limiter(0.5);
  EXPECT_EQ(limiter.Take("ana", kStart), std::nullopt);
  EXPECT_EQ(limiter.Take("ana", kStart), milliseconds(2000));
  EXPECT_EQ(limiter.Take("ana", kStart + milliseconds(2000)), std::nullopt);
}

TEST(RateLimiterTest, WaitingAsLongAsToldIsEnough) {
  RateLimiter limiter(3);  // a third of a second is no whole number of milliseconds
  auto now = kStart;
  for (int i = 0; i < 100; ++i) {
    if (const auto wait = limiter.Take("ana", now)) {
      now += *wait;
      EXPECT_EQ(limiter.Take("ana", now), std::nullopt) << i;
    }
  }
}

TEST(RateLimiterTest, ATimeThatIsEarlierGrantsNothing) {
  RateLimiter limiter(1);
  EXPECT_EQ(limiter.Take("ana", kStart + milliseconds(500)), std::nullopt);
  EXPECT_EQ(limiter.Take("ana", kStart), milliseconds(1000));
  EXPECT_EQ(limiter.Take("ana", kStart + milliseconds(1500)), std::nullopt);
}

}  // namespace
}  // namespace tvq
