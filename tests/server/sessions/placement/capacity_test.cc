#include "server/sessions/placement/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tvq {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kSessionBytes = 1000;  // that a session takes

// Makes sessions of the owner until one is refused.
std::vector<Capacity::Place> MostSessions(Capacity& capacity, const std::string& owner) {
  std::vector<Capacity::Place> places;
  while (true) {
    auto place = capacity.Reserve(owner, kSessionBytes);
    if (!place.ok()) return places;
    places.push_back(*std::move(place));
  }
}

TEST(CapacityTest, WithoutANameAllMayBeTaken) {
  Capacity capacity(64 * kSessionBytes);
  EXPECT_EQ(MostSessions(capacity, "").size(), 64u);
}

TEST(CapacityTest, KeepsSomeForOwnersThatHaveNothing) {
  Capacity capacity(64 * kSessionBytes, 0, kSessionBytes);
  const auto greedy = MostSessions(capacity, "greedy");
  EXPECT_EQ(greedy.size(), 56u);
  const absl::Status refused = capacity.Reserve("greedy", kSessionBytes).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("this key's sessions and marks take 56000 bytes and all 56000 of "
                              "64000 bytes; the rest is for other keys"),
                    HasSubstr("delete some of this key's")));
  const auto second = MostSessions(capacity, "second");
  EXPECT_EQ(second.size(), 3u);
  std::vector<Capacity::Place> first_ones;
  for (const char* const owner : {"c", "d", "e", "f", "g"}) {
    auto place = capacity.Reserve(owner, kSessionBytes);
    ASSERT_TRUE(place.ok()) << place.status();
    first_ones.push_back(*std::move(place));
    EXPECT_FALSE(capacity.Reserve(owner, kSessionBytes).ok());
  }
  EXPECT_EQ(capacity.used(), 64 * kSessionBytes);
  const absl::Status full = capacity.Reserve("h", kSessionBytes).status();
  EXPECT_THAT(std::string(full.message()),
              HasSubstr("64000 of 64000 bytes are taken by sessions and marks; delete some"));
}

TEST(CapacityTest, TwoOwnersShareRoomForTwo) {
  Capacity capacity(2 * kSessionBytes, 0, kSessionBytes);
  const auto one = MostSessions(capacity, "one");
  EXPECT_EQ(one.size(), 1u);
  EXPECT_EQ(MostSessions(capacity, "other").size(), 1u);
}

// A session that is there goes on, as long as newcomers find room.
TEST(CapacityTest, PlacesGrowIntoAllButWhatIsKept) {
  Capacity capacity(64 * kSessionBytes, 0, kSessionBytes);
  auto places = MostSessions(capacity, "greedy");
  ASSERT_EQ(capacity.used(), 56 * kSessionBytes);
  EXPECT_FALSE(places[0].Resize(5 * kSessionBytes + 1).ok());
  EXPECT_EQ(places[0].bytes(), kSessionBytes);
  EXPECT_EQ(capacity.used(), 56 * kSessionBytes);
  EXPECT_TRUE(places[0].Resize(5 * kSessionBytes).ok());
  EXPECT_FALSE(places[1].Resize(kSessionBytes + 1).ok());
  EXPECT_TRUE(places[0].Resize(kSessionBytes / 2).ok()) << "it gives back";
  // The only one of its owner may grow as far as there is room.
  auto only = capacity.Reserve("other", kSessionBytes);
  ASSERT_TRUE(only.ok()) << only.status();
  const int64_t left = capacity.total() - capacity.used();
  EXPECT_TRUE(only->Resize(kSessionBytes + left).ok());
  EXPECT_FALSE(only->Resize(kSessionBytes + left + 1).ok());
}

TEST(CapacityTest, ALargeFirstSessionLeavesSomeForOthers) {
  Capacity capacity(64 * kSessionBytes, 0, kSessionBytes);
  const auto greedy = MostSessions(capacity, "greedy");
  const absl::Status large = capacity.Reserve("other", 5 * kSessionBytes).status();
  EXPECT_THAT(
      std::string(large.message()),
      AllOf(HasSubstr("take 0 bytes and all 56000 of 64000 bytes"), HasSubstr("a smaller")));
  EXPECT_TRUE(capacity.Reserve("other", 4 * kSessionBytes).ok());
}

TEST(CapacityTest, WhatIsThereAlreadyCounts) {
  Capacity capacity(64 * kSessionBytes, 0, kSessionBytes);
  const Capacity::Place found = capacity.Force("owner", 70 * kSessionBytes);
  EXPECT_FALSE(capacity.Reserve("other", kSessionBytes).ok());
}

TEST(CapacityTest, WithoutALimitNobodyIsRefused) {
  Capacity capacity(std::numeric_limits<int64_t>::max() / 2, 0, kSessionBytes);
  std::vector<Capacity::Place> places;
  for (int i = 0; i < 1000; ++i) {
    auto place = capacity.Reserve("owner", kSessionBytes);
    ASSERT_TRUE(place.ok()) << place.status();
    places.push_back(*std::move(place));
  }
}

TEST(CapacityTest, AnOwnerHasItsOwnLimit) {
  Capacity capacity(64 * kSessionBytes, 2 * kSessionBytes, kSessionBytes);
  EXPECT_EQ(capacity.largest(), 2 * kSessionBytes);
  const auto places = MostSessions(capacity, "owner");
  EXPECT_EQ(places.size(), 2u);
  EXPECT_THAT(std::string(capacity.Reserve("owner", kSessionBytes).status().message()),
              HasSubstr("2000 of 2000 bytes are taken by this key's sessions and marks"));
  EXPECT_TRUE(capacity.Reserve("other", kSessionBytes).ok());
}

}  // namespace
}  // namespace tvq
