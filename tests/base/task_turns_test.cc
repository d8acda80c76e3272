#include "base/task_turns.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>

namespace tvq {
namespace {

using Turns = TaskTurns<std::string, char>;

// What begins, one task after the other, until nothing waits.
std::string All(Turns* turns) {
  std::string order;
  while (turns->MayBegin(false)) {
    const auto [owner, task] = turns->Begin(false);
    order += task;
    turns->End(owner);
  }
  return order;
}

void Add(Turns* turns, const std::string& owner, const std::string& tasks, size_t bytes = 1) {
  for (const char task : tasks) turns->Add(owner, bytes, /*is_short=*/false, task);
}

TEST(TaskTurnsTest, OwnersTakeTurns) {
  Turns turns(Turns::Order::kArrival);
  Add(&turns, "a", "1234", 1000);
  Add(&turns, "b", "xy");
  Add(&turns, "c", "-");
  EXPECT_EQ(All(&turns), "1x-2y34");
}

TEST(TaskTurnsTest, WhoComesLaterIsNotAhead) {
  Turns turns(Turns::Order::kArrival);
  Add(&turns, "a", "123456");
  for (int i = 0; i < 3; ++i) turns.End(turns.Begin(false).first);
  Add(&turns, "b", "xyz");
  EXPECT_EQ(All(&turns), "4x5y6z");
}

TEST(TaskTurnsTest, ALongTaskSavesUpNoTurns) {
  Turns turns(Turns::Order::kArrival);
  Add(&turns, "a", "1");
  turns.Begin(false);  // and runs on
  Add(&turns, "b", std::string(100, '-'));
  for (int i = 0; i < 100; ++i) turns.End(turns.Begin(false).first);
  Add(&turns, "c", "x");
  turns.Begin(false);  // and runs on
  Add(&turns, "a", "234");
  Add(&turns, "c", "y");
  EXPECT_EQ(All(&turns), "2y34");
}

TEST(TaskTurnsTest, BytesAreShared) {
  Turns turns(Turns::Order::kShortFirst);
  Add(&turns, "a", "1234", 1000);
  Add(&turns, "b", "stuvwxyz", 500);
  EXPECT_EQ(All(&turns), "s1tu2vw3xy4z");
}

TEST(TaskTurnsTest, AShortTaskOvertakesLongOnesOfAllOwners) {
  Turns turns(Turns::Order::kShortFirst);
  for (const char* const owner : {"a", "b", "c"}) Add(&turns, owner, "L", 1000);
  Add(&turns, "d", "s", 10);
  EXPECT_EQ(All(&turns), "sLLL");
}

TEST(TaskTurnsTest, ALongTaskDoesNotWaitForEver) {
  Turns turns(Turns::Order::kShortFirst);
  Add(&turns, "a", "L", 100);
  std::string order;
  for (int i = 0; order.find('L') == order.npos && i < 1000; ++i) {
    Add(&turns, "new " + std::to_string(i), "s", 10);
    const auto [owner, task] = turns.Begin(false);
    order += task;
    turns.End(owner);
  }
  EXPECT_EQ(order, "sssssssssL");
}

TEST(TaskTurnsTest, WhoHasFewerRunningIsFirst) {
  Turns turns(Turns::Order::kArrival);
  Add(&turns, "a", "12345");
  turns.Begin(false);
  turns.Begin(false);
  Add(&turns, "b", "xyz");
  std::string order;
  for (int i = 0; i < 5; ++i) order += turns.Begin(false).second;
  EXPECT_EQ(order, "xy3z4");
}

TEST(TaskTurnsTest, AnOwnerMayHaveSoManyRunning) {
  Turns turns(Turns::Order::kArrival, 2);
  Add(&turns, "a", "123");
  const std::string* const a = turns.Begin(false).first;
  turns.Begin(false);
  EXPECT_FALSE(turns.MayBegin(false));
  EXPECT_FALSE(turns.empty(false));
  Add(&turns, "b", "x");
  EXPECT_EQ(turns.Begin(false).second, 'x');
  EXPECT_FALSE(turns.MayBegin(false));
  turns.End(a);
  EXPECT_EQ(turns.Begin(false).second, '3');
}

TEST(TaskTurnsTest, ShortTasksMayBeginAlone) {
  Turns turns(Turns::Order::kArrival);
  turns.Add("a", 1, /*is_short=*/false, '1');
  EXPECT_FALSE(turns.MayBegin(true));
  EXPECT_TRUE(turns.empty(true));
  turns.Add("a", 1, /*is_short=*/true, '2');
  turns.Add("b", 1, /*is_short=*/true, '3');
  EXPECT_EQ(turns.Begin(true).second, '2');
  EXPECT_EQ(turns.Begin(true).second, '3');
  EXPECT_FALSE(turns.MayBegin(true));
  EXPECT_EQ(turns.Begin(false).second, '1');
}

TEST(TaskTurnsTest, TasksMayBeMovedOnly) {
  using Moved = TaskTurns<int, std::unique_ptr<int>>;
  Moved turns(Moved::Order::kArrival);
  turns.Add(1, 1, /*is_short=*/false, std::make_unique<int>(7));
  EXPECT_EQ(*turns.Begin(false).second, 7);
}

}  // namespace
}  // namespace tvq
