#include "server/engine/scheduling/reservation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <random>
#include <string>
#include <vector>

namespace tvq {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr auto kEndless = Clock::duration::max();

// An inn: guests come, wait in the order in which they came, stay for as long as they like.
class Inn {
 public:
  explicit Inn(int64_t beds) : occupancy_({.sequences = 1000, .state_bytes = beds}) {}

  struct Guest {
    uint64_t id = 0;
    std::string owner;
    OwnerLimits limits;
    Need need;  // beds are bytes
    Clock::duration stay{};
    Clock::time_point since;
    Clock::time_point first_since = Clock::time_point::max();  // nobody waits before it
    Clock::time_point started;
  };

  uint64_t Come(int64_t beds, Clock::duration stay, const std::string& owner = "",
                const OwnerLimits& limits = {}, int64_t sequences = 1) {
    waiting_.push_back({.id = ++last_,
                        .owner = owner,
                        .limits = limits,
                        .need = {.sequences = sequences, .state_bytes = beds},
                        .stay = stay,
                        .since = now_});
    return last_;
  }
  void Go(uint64_t id) {
    const auto it =
        std::find_if(running_.begin(), running_.end(), [&](const Guest& g) { return g.id == id; });
    occupancy_.Release(id, it->need);
    running_.erase(it);
  }
  void LeaveQueue(uint64_t id) {
    reservation_.Left(id);
    waiting_.remove_if([&](const Guest& g) { return g.id == id; });
  }
  bool Waits(uint64_t id) const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [&](const Guest& g) { return g.id == id; });
  }
  // Nobody comes or goes, so nobody looks.
  void Sleep(Clock::duration time) { now_ += time; }
  // So many beds are taken by what may make room, but does not.
  void SetIdle(int64_t beds) { idle_ = beds; }

  void Pass(Clock::duration time) {
    for (const auto end = now_ + time; now_ < end;) Tick();
  }
  void Tick() {
    now_ += kTick;
    for (auto it = running_.begin(); it != running_.end();) {
      if (it->stay != kEndless && now_ - it->started >= it->stay) {
        occupancy_.Release(it->id, it->need);
        it = running_.erase(it);
      } else {
        ++it;
      }
    }
    reservation_.Look(occupancy_, now_);
    while (StartOne()) {
    }
    if (!waiting_.empty()) {
      Guest& first = waiting_.front();
      first.first_since = std::min(first.first_since, now_);
    }
  }

  Clock::time_point now() const { return now_; }
  Reservation& reservation() { return reservation_; }
  std::vector<Guest> started;  // in order
  Clock::duration held{};      // so long a guest that would have fitted was held up

 private:
  static constexpr milliseconds kTick{10};

  static Waiter WaiterOf(const Guest& g) {
    return {.id = g.id, .owner = &g.owner, .limits = &g.limits, .need = g.need, .since = g.since};
  }

  bool StartOne() {
    const auto holder = reservation_.holder();
    for (auto it = waiting_.begin(); holder && it != waiting_.end(); ++it) {
      if (it->id == *holder && Fits(*it)) return Start(it);
    }
    bool someone = false;
    for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
      if (!Fits(*it)) {
        reservation_.Offer(WaiterOf(*it));
      } else if (reservation_.MayStart(WaiterOf(*it))) {
        return Start(it);
      } else {
        someone = true;
      }
    }
    if (someone) held += kTick;
    return false;
  }
  bool Fits(const Guest& g) const {
    return occupancy_.HasRoom(g.need, occupancy_.taken()) &&
           occupancy_.MayTake(g.owner, g.limits, g.need, occupancy_.TakenWith(g.owner)) &&
           occupancy_.taken().state_bytes + idle_ + g.need.state_bytes <=
               occupancy_.total().state_bytes;
  }
  bool Start(std::list<Guest>::iterator it) {
    it->started = now_;
    occupancy_.Add(it->id, it->owner, it->need, now_);
    reservation_.Started(WaiterOf(*it));
    started.push_back(*it);
    running_.splice(running_.end(), waiting_, it);
    return true;
  }

  Occupancy occupancy_;
  Reservation reservation_;
  Clock::time_point now_{seconds(1000)};
  std::list<Guest> waiting_;
  std::list<Guest> running_;
  int64_t idle_ = 0;
  uint64_t last_ = 0;
};

TEST(ReservationTest, OneThatOnlyAnEndlessStreamKeepsFromStartingHoldsUpNobody) {
  Inn inn(16);
  const uint64_t endless = inn.Come(9, kEndless);
  inn.Tick();
  const uint64_t second = inn.Come(9, kEndless);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t small = inn.Come(1 + random() % 7, milliseconds(10 + random() % 40));
    inn.Pass(milliseconds(50));
    ASSERT_FALSE(inn.Waits(small)) << i;
  }
  EXPECT_TRUE(inn.Waits(second));
  EXPECT_EQ(inn.held, Clock::duration{});
  inn.Go(endless);
  inn.Pass(milliseconds(200));
  EXPECT_FALSE(inn.Waits(second));
}

// Beds are always wanted, and each that becomes free would do for another small one.
TEST(ReservationTest, ALargeOneAmongSmallOnesThatEndHasItsTurn) {
  for (const int64_t beds : {2, 9, 16}) {
    Inn inn(16);
    std::mt19937 random(1);
    const auto come = [&] { inn.Come(1, milliseconds(500 + random() % 500)); };
    for (int i = 0; i < 40; ++i) {
      come();
      inn.Tick();
    }
    const auto since = inn.now();
    const uint64_t large = inn.Come(beds, seconds(1));
    while (inn.Waits(large)) {
      come();
      inn.Tick();
      ASSERT_LE(inn.now() - since, seconds(4)) << beds << " beds, others stay for a second";
    }
  }
}

TEST(ReservationTest, WhatLeavesItEnoughStartsBesideIt) {
  Inn inn(16);
  for (int i = 0; i < 16; ++i) inn.Come(1, seconds(10));
  inn.Pass(seconds(1));
  const uint64_t large = inn.Come(12, kEndless);
  inn.Pass(seconds(8));
  EXPECT_FALSE(inn.reservation().holder()) << "all run for longer than half of eight seconds";
  inn.Pass(seconds(3));
  EXPECT_FALSE(inn.Waits(large)) << "they have ended";

  for (int i = 0; i < 4; ++i) inn.Come(1, seconds(1));
  inn.Tick();
  const uint64_t next = inn.Come(2, seconds(1));
  inn.Pass(milliseconds(500));
  EXPECT_TRUE(inn.Waits(next));
  inn.Pass(seconds(1));
  EXPECT_FALSE(inn.Waits(next));
  EXPECT_EQ(inn.held, Clock::duration{});
}

TEST(ReservationTest, IsHeldInVainForAtMostHalfOfTheTime) {
  Inn inn(16);
  inn.SetIdle(8);  // and stays
  const uint64_t large = inn.Come(16, seconds(1));
  inn.Tick();
  EXPECT_EQ(inn.reservation().holder(), large);
  uint64_t small = 0;
  Clock::duration longest{};
  const auto begin = inn.now();
  for (auto since = begin; inn.now() - begin < seconds(400); since = inn.now()) {
    small = inn.Come(1, milliseconds(10));
    while (inn.Waits(small)) {
      inn.Tick();
      const auto again = inn.reservation().look_again();
      EXPECT_TRUE(again > inn.now() && (again == Clock::time_point::max() ||
                                        again <= since + Reservation::kMostKept + seconds(1)));
    }
    inn.Tick();
    longest = std::max(longest, inn.now() - since);
  }
  EXPECT_TRUE(inn.Waits(large));
  EXPECT_GT(inn.held, seconds(100));
  // Half, and the last time, after which none was kept yet.
  EXPECT_LE(inn.held - Reservation::kMostKept, (inn.now() - begin) / 2);
  EXPECT_GE(longest, Reservation::kLeastKept);
  EXPECT_LE(longest, Reservation::kMostKept + seconds(1));
  inn.SetIdle(0);
  inn.Pass(seconds(1));
  EXPECT_FALSE(inn.Waits(large));
}

// It counts as one that will end for as long as the large one had waited before.
TEST(ReservationTest, AnEndlessStreamThatReplacesAnotherHoldsUpOthersForAMinuteAtMost) {
  Inn inn(16);
  const uint64_t endless = inn.Come(1, kEndless);
  inn.Tick();
  const uint64_t large = inn.Come(16, seconds(1));
  inn.Pass(std::chrono::minutes(10));
  EXPECT_FALSE(inn.reservation().holder());
  const uint64_t another = inn.Come(1, kEndless);
  inn.Tick();
  inn.Go(endless);
  inn.Tick();
  EXPECT_EQ(inn.reservation().holder(), large) << "the other one is young";
  const auto begin = inn.now();
  const uint64_t small = inn.Come(1, milliseconds(10));
  while (inn.Waits(small)) inn.Tick();
  EXPECT_GE(inn.now() - begin, seconds(50));
  EXPECT_LE(inn.now() - begin, Reservation::kMostKept);
  EXPECT_TRUE(inn.Waits(large));
  inn.Go(another);
  inn.Pass(seconds(1));
  EXPECT_FALSE(inn.Waits(large));
}

TEST(ReservationTest, EndsWithWhoHoldsIt) {
  Inn inn(16);
  inn.SetIdle(8);
  const uint64_t large = inn.Come(16, seconds(1));
  inn.Tick();
  const uint64_t small = inn.Come(1, kEndless);
  inn.Pass(seconds(1));
  EXPECT_TRUE(inn.Waits(small));
  EXPECT_NE(inn.reservation().look_again(), Clock::time_point::max());
  inn.LeaveQueue(large);
  EXPECT_FALSE(inn.reservation().holder());
  inn.Tick();
  EXPECT_FALSE(inn.Waits(small));
  EXPECT_EQ(inn.reservation().look_again(), Clock::time_point::max());
  inn.Come(16, seconds(1));
  inn.Tick();
  EXPECT_FALSE(inn.reservation().holder()) << "it was kept in vain for a second";
  inn.Pass(seconds(3));
  EXPECT_FALSE(inn.reservation().holder()) << "an endless one was let in meanwhile";
}

TEST(ReservationTest, TimeInWhichNobodyLooksIsNoTimeInWhichRoomWasKept) {
  Inn inn(16);
  inn.SetIdle(8);
  const uint64_t large = inn.Come(16, seconds(1));
  inn.Tick();
  EXPECT_EQ(inn.reservation().holder(), large);
  inn.LeaveQueue(large);
  inn.Sleep(std::chrono::hours(1));
  inn.Tick();
  const uint64_t next = inn.Come(16, seconds(1));
  inn.Pass(Reservation::kLeastKept + seconds(1));
  EXPECT_EQ(inn.reservation().holder(), next);
}

TEST(ReservationTest, WhatAnOwnersShareKeepsFromStartingHoldsUpThatOwnerAlone) {
  Inn inn(64);
  const OwnerLimits two{.max_num_admitted_seqs = 2};
  inn.Come(1, milliseconds(1000), "", two);
  inn.Come(1, milliseconds(1500), "", two);
  inn.Tick();
  const uint64_t large = inn.Come(60, seconds(60), "", two, /*sequences=*/2);
  const uint64_t passes = inn.Come(1, milliseconds(600), "", two);
  inn.Pass(milliseconds(1200));
  EXPECT_FALSE(inn.Waits(passes)) << "in the place of the first";
  const uint64_t held = inn.Come(1, milliseconds(600), "", two);
  inn.Pass(milliseconds(350));  // the second has ended
  EXPECT_EQ(inn.reservation().holder(), large);
  const uint64_t other = inn.Come(5, milliseconds(20), "b");
  inn.Tick();
  EXPECT_FALSE(inn.Waits(other));
  EXPECT_TRUE(inn.Waits(held));
  inn.Pass(milliseconds(100));
  EXPECT_FALSE(inn.Waits(large));
  EXPECT_TRUE(inn.Waits(held));
}

// Requests of the other owner take each bed that becomes free, but for the one that its share
// leaves.
TEST(ReservationTest, AnOwnerWithAnEndlessStreamGetsItsEqualPart) {
  for (const int64_t beds : {4, 6}) {
    Inn inn(16);
    inn.Come(1, kEndless, "a");
    std::mt19937 random(1);
    const auto come = [&] { inn.Come(1, milliseconds(500 + random() % 500), "b"); };
    for (int i = 0; i < 40; ++i) {
      come();
      inn.Tick();
    }
    const auto since = inn.now();
    const uint64_t large = inn.Come(beds, seconds(1), "a");
    while (inn.Waits(large)) {
      come();
      inn.Tick();
      ASSERT_LE(inn.now() - since, seconds(5)) << beds << " beds, others stay for a second";
    }
  }
}

TEST(ReservationTest, AnOwnerWhoseEndlessStreamsHaveItsEqualPartHoldsUpNoOther) {
  Inn inn(16);
  inn.Come(8, kEndless, "a");
  uint64_t large = 0;
  for (int i = 0; i < 500; ++i) {
    inn.Come(1, milliseconds(600), "b");
    inn.Pass(milliseconds(100));
    if (i == 10) large = inn.Come(4, seconds(1), "a");
  }
  EXPECT_TRUE(inn.Waits(large));
  EXPECT_EQ(inn.held, Clock::duration{});
}

// Who is the first of those that wait starts after five times the longest stay at most.
TEST(ReservationTest, RandomWorldsStarveNobody) {
  for (uint32_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<std::string> owners =
        seed % 2 == 0 ? std::vector<std::string>{""} : std::vector<std::string>{"a", "b", "c"};
    std::mt19937 random(seed);
    const auto beds = static_cast<int64_t>(8 + random() % 60);
    Inn inn(beds);
    const auto below = [&](int64_t n) {
      return static_cast<int64_t>(random() % static_cast<uint32_t>(n));
    };
    const int64_t most = beds;
    const auto longest = milliseconds(100 + below(2000));
    int left = 200;
    while (left > 0 || static_cast<int>(inn.started.size()) < 200) {
      if (left > 0 && below(3) == 0) {
        --left;
        const bool large = below(5) == 0;
        const int64_t wanted = 1 + below(large ? most : 3);
        inn.Come(wanted, milliseconds(10 + below(longest.count() - 10)),
                 owners[random() % owners.size()]);
      }
      inn.Tick();
      ASSERT_LT(inn.now(), Clock::time_point(seconds(10'000)));
    }
    for (const Inn::Guest& g : inn.started) {
      if (g.first_since < g.started) {
        ASSERT_LE(g.started - g.first_since, 5 * longest) << g.need.state_bytes;
      }
    }
  }
}

}  // namespace
}  // namespace tvq
