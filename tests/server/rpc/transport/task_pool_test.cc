#include "server/rpc/transport/task_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace tvq {
namespace {

TEST(TaskPoolTest, DestructionRunsWhatWasScheduled) {
  std::atomic<int> ran = 0;
  {
    TaskPool pool({.threads = 3});
    for (int i = 0; i < 1000; ++i) pool.Schedule("", [&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 1000);
}

TEST(TaskPoolTest, BytesAreBounded) {
  absl::Notification go;
  absl::Notification freed;
  ByteQuota quota("tasks", 100);
  TaskPool pool({.bytes = &quota});
  ASSERT_TRUE(pool.TrySchedule("a", 60, [&go] { go.WaitForNotification(); }).ok());
  const absl::Status refused = pool.TrySchedule("a", 41, [] {});
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_TRUE(pool.TrySchedule("a", 28, [] {}).ok());
  EXPECT_FALSE(pool.TrySchedule("a", 1, [] {}).ok());
  EXPECT_TRUE(pool.TrySchedule("b", 6, [] {}).ok()) << "what one owner leaves to others";
  pool.Schedule("a", [&freed] { freed.Notify(); });  // takes no room, and comes last
  go.Notify();
  freed.WaitForNotification();
  EXPECT_TRUE(pool.TrySchedule("a", 1000, [] {}).ok()) << "alone, a large one is taken";
}

TEST(TaskPoolTest, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    TaskPool pool({});
    for (int i = 0; i < 100; ++i) pool.Schedule("", [&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(TaskPoolTest, ShortTasksOvertakeAsFarAsTheirLengthGoes) {
  std::string order;
  absl::Notification begun, go;
  const auto add = [&order](TaskPool& pool, size_t bytes, char name) {
    EXPECT_TRUE(pool.TrySchedule("", bytes, [&order, name] { order += name; }).ok());
  };
  ByteQuota quota("tasks", 100'000);
  {
    TaskPool pool({.bytes = &quota, .order = TaskPool::Order::kShortFirst});
    pool.Schedule("", [&] {
      begun.Notify();
      go.WaitForNotification();
    });
    begun.WaitForNotification();
    add(pool, 1000, 'a');
    const auto b = [&] {
      order += 'b';
      add(pool, 10, 'd');  // comes later than b by as many bytes as b has: too late to overtake c
    };
    EXPECT_TRUE(pool.TrySchedule("", 1000, b).ok());
    add(pool, 2000, 'c');
    add(pool, 10, '1');
    pool.Schedule("", [&] { order += '0'; });
    go.Notify();
  }
  EXPECT_EQ(order, "01abcd");
}

TEST(TaskPoolTest, OneThreadIsForShortTasksAlone) {
  std::string order;
  absl::Notification begun, go, last;
  ByteQuota quota("tasks", 100'000);
  TaskPool pool({.bytes = &quota, .order = TaskPool::Order::kShortFirst, .short_bytes = 100});
  const auto add = [&pool](size_t bytes, std::function<void()> task) {
    EXPECT_TRUE(pool.TrySchedule("", bytes, std::move(task)).ok());
  };
  add(1000, [&] {
    begun.Notify();
    go.WaitForNotification();
  });
  begun.WaitForNotification();
  // Neither is short: what has no length, though it is first in the order, and the next longer one.
  pool.Schedule("", [&order] { order += '0'; });
  add(101, [&order] { order += 'l'; });
  add(100, [&order] { order += '1'; });
  add(100, [&] {
    order += '2';
    last.Notify();
  });
  EXPECT_TRUE(last.WaitForNotificationWithTimeout(absl::Minutes(1))) << "waits for the long one";
  if (last.HasBeenNotified()) {
    EXPECT_EQ(order, "12");
  }
  go.Notify();
}

TEST(TaskPoolTest, OwnersTakeTurns) {
  std::string order;
  absl::Notification begun, go;
  {
    TaskPool pool({});
    const auto add = [&](const char* owner, char name) {
      pool.Schedule(owner, [&order, name] { order += name; });
    };
    pool.Schedule("a", [&] {
      begun.Notify();
      go.WaitForNotification();
    });
    begun.WaitForNotification();
    for (const char name : {'a', 'a', 'a', 'a'}) add("a", name);
    for (const char name : {'b', 'b'}) add("b", name);
    add("c", 'c');
    go.Notify();
  }
  EXPECT_EQ(order, "abcabaa");
}

TEST(TaskPoolTest, AnOwnerLeavesThreadsToOthers) {
  absl::Notification go, ran;
  TaskPool pool({.threads = 3, .most_of_owner = 2});
  for (int i = 0; i < 5; ++i) pool.Schedule("a", [&go] { go.WaitForNotification(); });
  pool.Schedule("b", [&ran] { ran.Notify(); });
  EXPECT_TRUE(ran.WaitForNotificationWithTimeout(absl::Minutes(1))) << "waits for another owner's";
  go.Notify();
}

}  // namespace
}  // namespace tvq
