#include "server/rpc/task_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

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

TEST(TaskPoolTest, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    TaskPool pool(1);
    for (int i = 0; i < 100; ++i) pool.Schedule([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

}  // namespace
}  // namespace tvq
