#include "server/rpc/limits/byte_quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

namespace tvq {
namespace {

using testing::HasSubstr;

class ByteQuotaTest : public testing::Test {
 protected:
  // The first error of as many calls of `owner` as there is room for, of `bytes` each.
  absl::Status Fill(const std::string& owner, int64_t bytes) {
    while (true) {
      auto status = shares_.emplace_back(&quota_, owner).Add(bytes);
      if (!status.ok()) return status;
    }
  }

  ByteQuota quota_{"things", 160};
  std::deque<ByteQuota::Share> shares_;
};

TEST_F(ByteQuotaTest, OneOwnerLeavesRoomForAnother) {
  const absl::Status refused = Fill("a", 10);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "things take 140 bytes, 140 of them this key's or address's; 10 more would exceed its "
            "part of the limit of 160; try again when some of its own have ended");
  ByteQuota::Share other(&quota_, "b");
  EXPECT_TRUE(other.Add(10).ok());
  EXPECT_THAT(std::string(ByteQuota::Share(&quota_, "c").Add(11).message()),
              HasSubstr("take 150 bytes, 0 of them this key's or address's; 11 more would exceed "
                        "the limit of 160; try again"));
  EXPECT_TRUE(ByteQuota::Share(&quota_, "c").Add(5).ok()) << "a sixteenth is kept for owners";
}

TEST_F(ByteQuotaTest, NamesWhatItCounts) {
  ByteQuota quota("things", 2, "places", Reason::kCallsFull);
  ByteQuota::Share first(&quota, "a");
  ASSERT_TRUE(first.Add(2).ok());
  EXPECT_THAT(std::string(ByteQuota::Share(&quota, "b").Add(1).message()),
              HasSubstr("things take 2 places, 0 of them this key's or address's; 1 more would"));
}

// A call does not know at first how much will come.
TEST_F(ByteQuotaTest, TheOnlyCallOfAnOwnerMayGrowToWhatOthersLeave) {
  ByteQuota::Share one(&quota_, "a"), growing(&quota_, "b"), second(&quota_, "b");
  ASSERT_TRUE(one.Add(75).ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(growing.Add(25).ok()) << i;
  EXPECT_FALSE(growing.Add(1).ok());
  EXPECT_FALSE(second.Add(1).ok());
}

TEST_F(ByteQuotaTest, WhatIsGivenBackIsThereForOthers) {
  ASSERT_FALSE(Fill("a", 10).ok());
  EXPECT_FALSE(ByteQuota::Share(&quota_, "b").Add(100).ok());
  shares_.clear();
  ByteQuota::Share other(&quota_, "b");
  EXPECT_TRUE(other.Add(160).ok());
}

TEST_F(ByteQuotaTest, LargerThanAllFindsRoomWhereNothingElseIs) {
  ByteQuota::Share large(&quota_, "a"), small(&quota_, "b");
  ASSERT_TRUE(small.Add(1).ok());
  EXPECT_FALSE(large.Add(200).ok());
  small = {};
  EXPECT_TRUE(large.Add(200).ok());
  EXPECT_FALSE(ByteQuota::Share(&quota_, "b").Add(1).ok());
}

TEST_F(ByteQuotaTest, AShareThatMovesIsGivenBackOnce) {
  ByteQuota::Share first(&quota_, "a");
  ASSERT_TRUE(first.Add(100).ok());
  {
    ByteQuota::Share moved(std::move(first));
    ByteQuota::Share assigned;
    assigned = std::move(moved);
    EXPECT_FALSE(ByteQuota::Share(&quota_, "b").Add(100).ok());
  }
  EXPECT_TRUE(ByteQuota::Share(&quota_, "b").Add(160).ok());
}

}  // namespace
}  // namespace tvq
