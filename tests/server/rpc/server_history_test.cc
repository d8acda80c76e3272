#include "server/rpc/services/server_history.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tvq {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

// Asked each second from the start until `last`, as the server does.
std::vector<int64_t> SecondsOfSamples(int64_t last) {
  ServerHistory history;
  for (int64_t second = 0; second <= last; ++second) {
    if (!history.IsDue(seconds(second))) continue;
    v1::ServerSample sample;
    sample.mutable_uptime()->set_seconds(second);
    history.Add(seconds(second), sample);
  }
  std::vector<int64_t> found;
  for (const v1::ServerSample& sample : history.samples()) {
    found.push_back(sample.uptime().seconds());
  }
  return found;
}

TEST(ServerHistoryTest, ReachesFromTheStartUntilNowInEqualSteps) {
  constexpr int64_t kMost = ServerHistory::kMostSamples;
  for (const int64_t last : {int64_t{0}, int64_t{1}, kMost - 1, kMost, kMost + 1, 2 * kMost - 1,
                             2 * kMost, 2 * kMost + 3, int64_t{100'000}}) {
    int64_t step = 1;
    while (last / step >= kMost) step *= 2;
    const std::vector<int64_t> found = SecondsOfSamples(last);
    ASSERT_EQ(std::ssize(found), last / step + 1) << last;
    for (int64_t i = 0; i < std::ssize(found); ++i) ASSERT_EQ(found[i], i * step) << last;
  }
}

TEST(ServerHistoryTest, WaitsForItsPeriodAlsoAfterASampleThatCameLate) {
  ServerHistory history;
  EXPECT_TRUE(history.IsDue(nanoseconds(0)));
  history.Add(nanoseconds(500), {});
  EXPECT_FALSE(history.IsDue(seconds(1)));
  EXPECT_TRUE(history.IsDue(seconds(1) + nanoseconds(500)));
}

}  // namespace
}  // namespace tvq
