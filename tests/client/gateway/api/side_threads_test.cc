#include "client/gateway/api/side_threads.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

namespace tvq::gateway {
namespace {

TEST(SideThreadsTest, ShortTasksOvertakeAsFarAsTheirLengthGoes) {
  std::string order;
  std::promise<void> begun, free;  // outlive the threads
  {
    SideThreads threads(1);
    threads.Schedule(nullptr, 1000, [&] {
      begun.set_value();
      free.get_future().wait();
    });
    begun.get_future().wait();
    threads.Schedule(nullptr, 1000, [&] { order += 'a'; });
    threads.Schedule(nullptr, 1000, [&] {
      order += 'b';
      // Comes later than b by as many bytes as b has: too late to overtake c.
      threads.Schedule(nullptr, 10, [&] { order += 'd'; });
    });
    threads.Schedule(nullptr, 2000, [&] { order += 'c'; });
    threads.Schedule(nullptr, 10, [&] { order += '1'; });
    free.set_value();
  }
  EXPECT_EQ(order, "1abcd");
}

TEST(SideThreadsTest, AddressesTakeTurns) {
  std::string order;
  std::promise<void> begun, free;  // outlive the threads
  const auto one = std::make_shared<Peer>(), other = std::make_shared<Peer>();
  {
    SideThreads threads(1);
    threads.Schedule(one, 1000, [&] {
      begun.set_value();
      free.get_future().wait();
    });
    begun.get_future().wait();
    for (int i = 0; i < 5; ++i) threads.Schedule(one, 1000, [&] { order += '1'; });
    for (int i = 0; i < 2; ++i) threads.Schedule(other, 1000, [&] { order += '2'; });
    free.set_value();
  }
  EXPECT_EQ(order, "1212111");
}

TEST(SideThreadsTest, DestructionRunsWhatWasScheduled) {
  int ran = 0;
  {
    SideThreads threads(1);
    for (int i = 0; i < 100; ++i) threads.Schedule(nullptr, i % 7, [&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace tvq::gateway
