#include "server/rpc/limits/connections/reset_limiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/server/rpc/limits/connections/limiter_test.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr auto kResets = ResetLimiter::Reason::kResets;
constexpr auto kStreams = ResetLimiter::Reason::kStreams;

using ResetLimiterTest = LimiterTest;

TEST_F(ResetLimiterTest, ASecondsWorthMayComeAtOnceAndThenAsManyEachSecond) {
  Open(1);
  Storm(1, 100);
  EXPECT_THAT(Look(), IsEmpty());
  for (int second = 0; second < 20; ++second) {
    Storm(1, 100);
    EXPECT_THAT(Look(seconds(1)), IsEmpty());
  }
  Storm(1, 90);
  EXPECT_THAT(Look(milliseconds(100)), ElementsAre(1));
  EXPECT_EQ(verdicts_[0].reason, kResets);
  EXPECT_NEAR(static_cast<double>(verdicts_[0].count), 180, 1);
}

TEST_F(ResetLimiterTest, ManyOldStreamsMayBeResetAtOnce) {
  Open(1);
  for (int i = 0; i < 100; ++i) {
    At(1).started += 8;
    EXPECT_THAT(Look(milliseconds(100)), IsEmpty());
  }
  Look(seconds(1));
  At(1).failed += 800;
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(ResetLimiterTest, ManyStreamsMayBeOpenedAndAnswered) {
  Open(1);
  for (int i = 0; i < 100; ++i) {
    At(1).started += 1000;
    EXPECT_THAT(Look(), IsEmpty());
    At(1).succeeded += 1000;
  }
}

TEST_F(ResetLimiterTest, NoMoreAreLiveThanAClientMayOpenAndAQuarterMore) {
  Open(1).started = 1250;
  EXPECT_THAT(Look(), IsEmpty());
  At(1).started += 1;
  EXPECT_THAT(Look(), ElementsAre(1));
  EXPECT_EQ(verdicts_[0].reason, kStreams);
  EXPECT_EQ(verdicts_[0].count, 1251);
}

TEST_F(ResetLimiterTest, AClosedConnectionIsToldOnce) {
  Open(1);
  Storm(1, 101);
  EXPECT_THAT(Look(), ElementsAre(1));
  Storm(1, 1000);  // that were read before
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(ResetLimiterTest, AClosedConnectionThatBringsBytesIsOpen) {
  Open(1);
  Storm(1, 101);
  EXPECT_THAT(Look(), ElementsAre(1));
  At(1).bytes += 1;  // that came before it was closed
  EXPECT_THAT(Look(), IsEmpty());
  Storm(1, 101);
  EXPECT_THAT(Look(Watched::kClosing), IsEmpty());
  Storm(1, 101);
  At(1).bytes += 1;
  EXPECT_THAT(Look(), ElementsAre(1));
}

TEST_F(ResetLimiterTest, AfterOneWasClosedTheNetworkMayDoATenthAtOnceForAWhile) {
  Open(1);
  Open(2, kBob);
  Storm(1, 101);
  EXPECT_THAT(Look(), ElementsAre(1));
  Close(1);
  Look(seconds(1));
  Open(3);
  Storm(3, 11);
  Storm(2, 99);
  EXPECT_THAT(Look(), ElementsAre(3)) << "and others as before";
  Close(3);
  Open(4).started = 101;
  EXPECT_THAT(Look(), ElementsAre(4));
  EXPECT_EQ(verdicts_[0].reason, kStreams);
  Close(4);
  Look(ResetLimiter::kWary);
  Open(5);
  Storm(5, 100);
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(ResetLimiterTest, ANetworkWhoseStreamsAreNotTakenApartMayDoAHundredthAtOnce) {
  Open(1).started = 1251;
  Open(2, kBob).started = 50;
  EXPECT_THAT(Look(), ElementsAre(1));
  Open(3).started = 50;
  EXPECT_THAT(Look(), ElementsAre(3)) << "1,251 are live, of 200";
  At(1).failed = 1251;
  At(3).failed = 50;
  EXPECT_THAT(Look(seconds(1)), IsEmpty());
  Open(4).started = 50;
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(ResetLimiterTest, AWaryNetworkMayAlwaysDoAFew) {
  Limit({.max_resets_per_second = 20, .max_streams = 100});
  Open(1).started = 1251;
  Open(2);
  EXPECT_THAT(Look(), ElementsAre(1));
  At(2).started += 8;
  EXPECT_THAT(Look(), IsEmpty()) << "a hundredth is one";
  At(2).failed += 8;
  EXPECT_THAT(Look(), IsEmpty());
  Storm(2, 8);
  EXPECT_THAT(Look(), ElementsAre(2));
}

TEST_F(ResetLimiterTest, StreamsThatWereOpenBeforeAreNotHastyAfterOneWasClosed) {
  Open(1).started = 900;
  Open(2);
  EXPECT_THAT(Look(), IsEmpty());
  Look(seconds(9));
  Storm(2, 101);
  EXPECT_THAT(Look(), ElementsAre(2));
  At(1).started += 10;
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(ResetLimiterTest, ConnectionsOfANetworkShareFourTimesWhatOneMayReset) {
  for (int id = 1; id <= 8; ++id) Open(id);
  for (int id = 1; id <= 8; ++id) Storm(id, 10 * id);  // 360
  EXPECT_THAT(Look(), IsEmpty());
  for (int id = 1; id <= 8; ++id) Storm(id, 2 * id);
  EXPECT_THAT(Look(), ElementsAre(8)) << "that with the most";
  EXPECT_EQ(verdicts_[0].reason, kResets);
}

TEST_F(ResetLimiterTest, ANetworkThatReconnectsIsCountedOn) {
  std::vector<int64_t> closed;
  for (int id = 1; id <= 10 && closed.empty(); ++id) {
    Open(id);
    Storm(id, 90);
    closed = Look();
    Close(id);
  }
  EXPECT_THAT(closed, ElementsAre(5)) << "4 of them had reset 360";
}

TEST_F(ResetLimiterTest, NetworksDoNotShare) {
  for (int id = 1; id <= 8; ++id) Open(id, std::string(4, static_cast<char>(id)));
  for (int id = 1; id <= 8; ++id) Storm(id, 100);
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(ResetLimiterTest, OfIpv6ANetworkIs56Bits) {
  const std::string network(7, 'n');
  Open(1, network + "1interfac");
  Storm(1, 101);
  EXPECT_THAT(Look(), ElementsAre(1));
  Open(2, network + "2ecafretn");
  Open(3, std::string(7, 'o') + "1interfac");
  Storm(2, 50);
  Storm(3, 50);
  EXPECT_THAT(Look(), ElementsAre(2));
}

TEST_F(ResetLimiterTest, NetworksAreWaryOfWhichAConnectionWasClosed) {
  Open(1);
  Open(2, kBob);
  Storm(1, 101);
  Look();
  EXPECT_THAT(limiter_->WaryNetworks(now_), ElementsAre(NetworkOf(kAnasAddress)));
  EXPECT_THAT(limiter_->WaryNetworks(now_ + ResetLimiter::kWary), IsEmpty());
}

TEST_F(ResetLimiterTest, StreamsThatAreLiveBecauseNoneEndsAreBoundedForANetwork) {
  for (int id = 1; id <= 5; ++id) Open(id).started = 500;
  EXPECT_THAT(Look(), ElementsAre(testing::_)) << "2,500 live, of 2,000";
  EXPECT_EQ(verdicts_[0].reason, kStreams);
}

TEST_F(ResetLimiterTest, BytesThatBringNothingMayBeFew) {
  Open(1).bytes = 256 << 10;
  EXPECT_THAT(Look(), IsEmpty());
  for (int second = 0; second < 60; ++second) {
    At(1).bytes += 64 << 10;
    EXPECT_THAT(Look(seconds(1)), IsEmpty());
  }
  At(1).bytes += 257 << 10;
  EXPECT_THAT(Look(), ElementsAre(1));
  EXPECT_EQ(verdicts_[0].reason, ResetLimiter::Reason::kBarren);
}

TEST_F(ResetLimiterTest, ARequestThatIsUnderWayHasItsBytes) {
  Open(1).started = 1;
  EXPECT_THAT(Look(), IsEmpty());
  At(1).bytes += 20 << 20;  // a message's, a quarter more, and some
  EXPECT_THAT(Look(), IsEmpty());
  At(1).succeeded = 1;  // refused, and its client has not heard of it yet
  EXPECT_THAT(Look(), IsEmpty());
  At(1).bytes += 300 << 10;
  EXPECT_THAT(Look(), ElementsAre(1));
}

TEST_F(ResetLimiterTest, SoHasALaterMessageOfAStream) {
  Open(1).started = 1;
  At(1).messages = 1;
  for (int second = 0; second < 20; ++second) {
    At(1).bytes += 1 << 20;
    EXPECT_THAT(Look(seconds(1)), IsEmpty());
  }
}

TEST_F(ResetLimiterTest, WhatAClientDoesAllowsForItsBytes) {
  Open(1);
  for (int call = 0; call < 20; ++call) {
    At(1).started += 1;
    At(1).messages += 1;
    At(1).bytes += 16 << 20;
    EXPECT_THAT(Look(), IsEmpty());
    At(1).succeeded += 1;
  }
  At(1).started += 1;
  for (int step = 0; step < 100; ++step) {  // it reads a stream
    At(1).sent += 1000;
    At(1).bytes += 60'000;
    EXPECT_THAT(Look(), IsEmpty());
  }
}

// gRPC has not come to the head of the request yet, which would say what the bytes are of.
TEST_F(ResetLimiterTest, WhatIsNotLookedAtYetMayBeARequest) {
  for (const int id : {1, 2}) {
    Open(id).started = 1;
    At(id).messages = 1;
    At(id).succeeded = 1;
  }
  Look();
  At(1).bytes = At(1).unread = 6 << 20;
  At(2).bytes = 4 << 20;
  EXPECT_THAT(Look(), IsEmpty());
  At(1).unread = 2 << 20;
  EXPECT_THAT(Look(), IsEmpty());
  At(2).bytes += 300 << 10;
  EXPECT_THAT(Look(), ElementsAre(2));
}

TEST_F(ResetLimiterTest, AWaryNetworksRequestsMayBeATenth) {
  Open(1).bytes = 300 << 10;
  Look(milliseconds(0));
  Open(2).started = 1;
  Look();
  At(2).bytes += (2 << 20) + (300 << 10);
  EXPECT_THAT(Look(), ElementsAre(2));
}

TEST_F(ResetLimiterTest, WithoutALimitOfResetsOnlyLiveStreamsCount) {
  Limit({.max_resets_per_second = 0, .max_streams = 1000});
  for (int id = 1; id <= 5; ++id) Open(id).started = 1000;
  Open(6);
  Storm(6, 1'000'000);
  EXPECT_THAT(Look(), IsEmpty());
  At(1).started = 2000;
  EXPECT_THAT(Look(), ElementsAre(1));
  At(2).started = 1200;
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(ResetLimiterTest, NetworksAreForgottenWhenTheirResetsAre) {
  Open(1);
  Open(2, kBob);
  Storm(1, 50);
  Storm(2, 101);
  EXPECT_THAT(Look(), ElementsAre(2));
  open_.clear();
  Look(milliseconds(1));
  EXPECT_EQ(limiter_->networks(), 2);
  Look(seconds(5));
  EXPECT_EQ(limiter_->networks(), 1);
  Look(ResetLimiter::kWary);
  EXPECT_EQ(limiter_->networks(), 0);
}

TEST_F(ResetLimiterTest, RemembersSoManyNetworksAndBoundsTheConnectionsOfOthers) {
  for (size_t id = 1; id <= ResetLimiter::kMaxNetworks; ++id) {
    const auto n = static_cast<uint32_t>(id);
    Open(static_cast<int64_t>(id), {reinterpret_cast<const char*>(&n), sizeof(n)}).started = 100;
  }
  EXPECT_THAT(Look(), IsEmpty());
  Open(100'001);
  Open(100'002);
  Storm(100'001, 101);
  Storm(100'002, 99);
  EXPECT_THAT(Look(), ElementsAre(100'001));
  EXPECT_EQ(limiter_->networks(), ResetLimiter::kMaxNetworks);
}

}  // namespace
}  // namespace tvq
