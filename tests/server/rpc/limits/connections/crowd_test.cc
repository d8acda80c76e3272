#include "server/rpc/limits/connections/crowd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "tests/server/rpc/limits/connections/limiter_test.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using Reason = Group::Reason;

using CrowdTest = LimiterTest;

TEST_F(CrowdTest, ClientsWithoutAKeyResetTogetherWhatANetworkMay) {
  for (int id = 1; id <= 8; ++id) OpenAlone(id, Standing::kUnknown);
  OpenAlone(9, Standing::kKeyHolder);
  for (int id = 1; id <= 7; ++id) Storm(id, 50);  // 350
  Storm(9, 100);
  EXPECT_THAT(Look(), IsEmpty());
  Storm(8, 60);
  EXPECT_THAT(Look(), ElementsAre(8)) << "that with the most";
  EXPECT_EQ(verdicts_[0].reason, Reason::kCrowd);
}

TEST_F(CrowdTest, CallersWithoutAKeyAreClosedLast) {
  for (int id = 1; id <= 4; ++id) OpenAlone(id, Standing::kCaller);
  for (int id = 5; id <= 8; ++id) OpenAlone(id, Standing::kUnknown);
  for (int id = 1; id <= 8; ++id) Storm(id, id < 5 ? 90 : 10);  // 400
  EXPECT_THAT(Look(), IsEmpty());
  Storm(1, 8);
  Storm(5, 3);
  EXPECT_THAT(Look(milliseconds(1)), ElementsAre(5)) << "though others reset more";
}

TEST_F(CrowdTest, CallersThatWereServedMuchForWhatTheyHaveOpenAreClosedLast) {
  for (int id = 1; id <= 20; ++id) OpenAlone(id, Standing::kCaller).started = id == 1 ? 900 : 600;
  for (int id = 1; id <= 20; ++id) At(id).sent = id == 1 ? 50'000 : 1;
  const std::vector<int64_t> closed = Look();
  EXPECT_EQ(closed.size(), 19) << "12,300 are live, and then a tenth of 12,000";
  EXPECT_THAT(closed, Not(Contains(1))) << "which has the most";
}

TEST_F(CrowdTest, WhatAClosedStormHasDoneCountsForNoOther) {
  for (int id = 1; id <= 3; ++id) OpenAlone(id, Standing::kUnknown);
  Storm(1, 9000);
  Storm(2, 10);
  EXPECT_THAT(Look(), ElementsAre(1));
  Storm(3, 10);
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(CrowdTest, StreamsAreBoundedHoweverSlowlyTheyAreOpened) {
  for (int id = 1; id <= 100; ++id) OpenAlone(id, Standing::kUnknown);
  OpenAlone(101, Standing::kKeyHolder).started = 1000;
  for (int streams = 0; streams < 120; streams += 10) {
    for (int id = 1; id <= 100; ++id) At(id).started += 10;
    EXPECT_THAT(Look(seconds(3)), IsEmpty());
  }
  Look(seconds(10));
  EXPECT_FALSE(limiter_->IsCrowded()) << "they are old";
  At(7).started += 1;
  EXPECT_THAT(Look(), ElementsAre(7)) << "12,001 are live";
  EXPECT_EQ(verdicts_[0].reason, Reason::kCrowd);
}

TEST_F(CrowdTest, WhileAStormIsTakenApartOthersMayBeginATenth) {
  for (int id = 1; id <= 20; ++id) OpenAlone(id, Standing::kUnknown).started = 900;
  OpenAlone(21, Standing::kUnknown);
  OpenAlone(22, Standing::kCaller).started = 200;
  EXPECT_EQ(Look().size(), 21) << "all but the caller, also who has begun nothing yet";
  EXPECT_TRUE(limiter_->IsCrowded());
  OpenAlone(23, Standing::kUnknown).started = 100;
  EXPECT_THAT(Look(), IsEmpty()) << "300 of 3,000 may be new, as many networks are wary";
  OpenAlone(24, Standing::kUnknown).started = 2;
  EXPECT_THAT(Look(milliseconds(0)), ElementsAre(23, 24));
  for (int id = 1; id <= 24; ++id) At(id).succeeded = At(id).started;
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_FALSE(limiter_->IsCrowded());
}

TEST_F(CrowdTest, WhileManyNetworksAreWaryAQuarterMayBeNew) {
  for (int id = 1; id <= Crowd::kMany; ++id) {
    OpenAlone(id, Standing::kKeyHolder);
    Storm(id, 101);
  }
  EXPECT_EQ(Look().size(), Crowd::kMany);
  for (int id = 11; id <= 14; ++id) OpenAlone(id, Standing::kUnknown).started = 740;
  EXPECT_THAT(Look(), IsEmpty());
  At(14).started += 60;
  EXPECT_EQ(Look().size(), 4) << "3,020 of 3,000";
}

TEST_F(CrowdTest, AConnectionThatOnlyGrpcRemembersIsNone) {
  for (int id = 1; id <= 20; ++id) OpenAlone(id, Standing::kUnknown).started = 900;
  EXPECT_EQ(Look().size(), 20);
  Look(Watched::kGone);
  EXPECT_TRUE(limiter_->IsCrowded());
  Look();
  EXPECT_FALSE(limiter_->IsCrowded());
}

TEST_F(CrowdTest, NorIsOneThatItsClientEnded) {
  Limit({.max_bytes = 1000});
  for (int id = 1; id <= 2; ++id) OpenAlone(id, Standing::kUnknown).started = 1;
  for (int id = 1; id <= 2; ++id) At(id).bytes = 490;
  EXPECT_THAT(Look(), IsEmpty());
  At(1).ended = true;
  Look(Watched::kGone);
  Look();
  OpenAlone(3, Standing::kUnknown).started = 1;
  At(3).bytes = 500;
  EXPECT_THAT(Look(), IsEmpty()) << "490 bytes are under way, and these";
  At(3).bytes = 520;
  EXPECT_THAT(Look(), ElementsAre(3, 2)) << "that is open, though it does nothing";
}

TEST_F(CrowdTest, WithoutALimitOfResetsStreamsAreNone) {
  Limit({.max_resets_per_second = 0, .max_streams = 1000});
  for (int id = 1; id <= 30; ++id) OpenAlone(id, Standing::kUnknown).started = 1000;
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_FALSE(limiter_->IsCrowded());
}

TEST_F(CrowdTest, BytesThatAreNoWholeRequestsAreBounded) {
  Limit({.max_bytes = 1000});
  for (int id = 1; id <= 4; ++id) OpenAlone(id, Standing::kUnknown).started = 1;
  OpenAlone(5, Standing::kKeyHolder).started = 1;
  for (int id = 1; id <= 4; ++id) At(id).bytes = 240 + id;
  At(5).bytes = 10'000;
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_TRUE(limiter_->IsCrowded());
  At(2).bytes += 100;
  EXPECT_THAT(Look(), ElementsAre(2, 4, 3, 1)) << "those with the most, until a tenth is left";
  EXPECT_EQ(verdicts_[0].reason, Reason::kBytes);
  EXPECT_EQ(verdicts_[0].count, 342);
}

TEST_F(CrowdTest, ARequestThatIsHeldIsNoCrowdForLong) {
  Limit({.max_bytes = 1000});
  OpenAlone(1, Standing::kUnknown).started = 1;
  OpenAlone(2, Standing::kUnknown).started = 1;
  At(1).bytes = 450;
  Look();
  EXPECT_TRUE(limiter_->IsCrowded());
  Look(seconds(1));
  EXPECT_FALSE(limiter_->IsCrowded()) << "only half of it is new";
  At(2).bytes = 50;
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_TRUE(limiter_->IsCrowded()) << "more than a quarter is";
  At(2).bytes = 551;
  EXPECT_THAT(Look(seconds(60)), ElementsAre(2, 1)) << "old or not, all are bounded";
}

TEST_F(CrowdTest, BytesOfWholeRequestsDoNotCount) {
  Limit({.max_bytes = 1000});
  OpenAlone(1, Standing::kUnknown).started = 1;
  for (int requests = 1; requests < 10; ++requests) {
    At(1).bytes += 900;
    EXPECT_THAT(Look(), IsEmpty());
    At(1).messages += 1;
    EXPECT_THAT(Look(), IsEmpty());
    At(1).started += 1;
  }
}

TEST_F(CrowdTest, WholeRequestsAreNotSavedUpForOthers) {
  Limit({.max_bytes = 1000});
  OpenAlone(1, Standing::kUnknown).started = 101;
  At(1).messages = 100;
  At(1).failed = 100;
  At(1).bytes = 500;
  EXPECT_THAT(Look(), IsEmpty());
  for (size_t i = 0; i < 2; ++i) {
    At(1).started += 1;
    At(1).bytes += 600;
    EXPECT_EQ(Look().size(), i)
        << "100 messages of streams that were reset make none of these whole";
  }
}

TEST_F(CrowdTest, BytesThatAreNotSeenForAMomentDoNotComeAgain) {
  Limit({.max_bytes = 1000});
  OpenAlone(1, Standing::kUnknown).started = 1;
  At(1).messages = 1;
  At(1).bytes = 900;
  EXPECT_THAT(Look(), IsEmpty());
  At(1).started += 1;
  At(1).bytes = 0;
  EXPECT_THAT(Look(), IsEmpty());
  At(1).bytes = 1100;
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(CrowdTest, AConnectionWithoutStreamsHasNothingUnderWay) {
  Limit({.max_bytes = 1000});
  OpenAlone(1, Standing::kUnknown);
  for (int i = 1; i < 10; ++i) {  // calls that are refused before their message is read
    At(1).started += 1;
    At(1).bytes += 900;
    EXPECT_THAT(Look(), IsEmpty());
    At(1).succeeded += 1;
    EXPECT_THAT(Look(), IsEmpty());
  }
}

TEST_F(CrowdTest, ACallThatIsRefusedUnreadLeavesLittleUnderWay) {
  Limit({.max_message_bytes = 10, .max_bytes = 1000});
  OpenAlone(1, Standing::kUnknown).started = 1;  // it is not answered
  At(1).messages = 1;
  for (int i = 1; i < 10; ++i) {
    At(1).started += 1;
    At(1).succeeded += 1;
    At(1).bytes += 900;
    EXPECT_THAT(Look(), IsEmpty());
    EXPECT_FALSE(limiter_->IsCrowded()) << "one request may be, that comes in 100 bytes at most";
  }
}

TEST_F(CrowdTest, OfEachRequestSoManyBytesCountAsItMayHave) {
  Limit({.max_message_bytes = 10, .max_bytes = 1000});
  OpenAlone(1, Standing::kUnknown).started = 10;
  At(1).bytes = 1500;
  EXPECT_THAT(Look(), IsEmpty());
  At(1).started += 1;
  At(1).bytes += 1;
  EXPECT_THAT(Look(), ElementsAre(1)) << "1,001 of 1,100";
}

}  // namespace
}  // namespace tvq
