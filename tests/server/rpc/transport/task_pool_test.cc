#include "server/rpc/transport/task_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace tvq {
namespace {

TEST(TaskPoolTest, DestructionRunsWhatWasScheduled) {
  std::atomic<int> ran = 0;
  {
    TaskPool pool(3);
    for (int i = 0; i < 1000; ++i) pool.Schedule([&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 1000);
}

TEST(TaskPoolTest, BytesAreBounded) {
  absl::Notification go;
  absl::Notification freed;
  TaskPool pool(1, 100);
  ASSERT_TRUE(pool.TrySchedule(60, [&go] { go.WaitForNotification(); }));
  EXPECT_FALSE(pool.TrySchedule(41, [] {}));
  EXPECT_TRUE(pool.TrySchedule(40, [] {}));
  EXPECT_FALSE(pool.TrySchedule(1, [] {}));
  pool.Schedule([&freed] { freed.Notify(); });  // takes no room
  go.Notify();
  freed.WaitForNotification();
  EXPECT_TRUE(pool.TrySchedule(1000, [] {})) << "alone, a large one is taken";
}

TEST(TaskPoolTest, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    TaskPool pool(1);
    for (int i = 0; i < 100; ++i) pool.Schedule([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(TaskPoolTest, ShortTasksOvertakeAsFarAsTheirLengthGoes) {
  std::string order;
  absl::Notification begun, go;
  const auto add = [&order](TaskPool& pool, size_t bytes, char name) {
    EXPECT_TRUE(pool.TrySchedule(bytes, [&order, name] { order += name; }));
  };
  {
    TaskPool pool(1, 100'000, TaskPool::Order::kShortFirst);
    pool.Schedule([&] {
      begun.Notify();
      go.WaitForNotification();
    });
    begun.WaitForNotification();
    add(pool, 1000, 'a');
    EXPECT_TRUE(pool.TrySchedule(1000, [&] {
      order += 'b';
      add(pool, 10, 'd');  // comes later than b by as many bytes as b has: too late to overtake c
    }));
    add(pool, 2000, 'c');
    add(pool, 10, '1');
    pool.Schedule([&] { order += '0'; });
    go.Notify();
  }
  EXPECT_EQ(order, "01abcd");
}

TEST(TaskPoolTest, OneThreadIsForShortTasksAlone) {
  std::string order;
  absl::Notification begun, go, last;
  TaskPool pool(1, 100'000, TaskPool::Order::kShortFirst, 100);
  EXPECT_TRUE(pool.TrySchedule(1000, [&] {
    begun.Notify();
    go.WaitForNotification();
  }));
  begun.WaitForNotification();
  // Neither is short: what has no length, though it is first in the order, and the next longer one.
  pool.Schedule([&order] { order += '0'; });
  EXPECT_TRUE(pool.TrySchedule(101, [&order] { order += 'l'; }));
  EXPECT_TRUE(pool.TrySchedule(100, [&order] { order += '1'; }));
  EXPECT_TRUE(pool.TrySchedule(100, [&] {
    order += '2';
    last.Notify();
  }));
  EXPECT_TRUE(last.WaitForNotificationWithTimeout(absl::Minutes(1))) << "waits for the long one";
  if (last.HasBeenNotified()) EXPECT_EQ(order, "12");
  go.Notify();
}

}  // namespace
}  // namespace tvq
