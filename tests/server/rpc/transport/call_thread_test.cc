#include "server/rpc/transport/call_thread.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace tvq {
namespace {

using testing::ElementsAre;

class CallThreadTest : public testing::Test {
 protected:
  CallThreadTest() {
    grpc::ServerBuilder builder;
    thread_ = std::make_unique<CallThread>(builder.AddCompletionQueue());
    server_ = builder.BuildAndStart();
    thread_->Start();
  }
  ~CallThreadTest() override {
    server_->Shutdown();
    thread_->Stop();
  }

  // Returns when everything that was scheduled before has run.
  void Flush() {
    absl::Notification ran;
    thread_->Schedule([&] { ran.Notify(); });
    ran.WaitForNotification();
  }

  std::unique_ptr<CallThread> thread_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(CallThreadTest, RunsTasksInOrderOnOneThread) {
  std::vector<int> ran;
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 3; ++i) {
    thread_->Add([&, i] {
      ran.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  }
  Flush();
  EXPECT_THAT(ran, ElementsAre(0, 1, 2));
  EXPECT_THAT(threads, ElementsAre(threads[0], threads[0], threads[0]));
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST_F(CallThreadTest, RunsWhatIsAddedWhileItRuns) {
  absl::Notification added, second;
  thread_->Schedule([&] { added.WaitForNotification(); });
  thread_->Add([&] { second.Notify(); });  // nobody rings: the first one's ring will do
  added.Notify();
  second.WaitForNotification();
}

TEST_F(CallThreadTest, IsRungAgainAfterEachTimeThatItSlept) {
  int ran = 0;
  for (int i = 0; i < 1000; ++i) {
    thread_->Schedule([&] { ++ran; });
    if (i % 10 == 0) Flush();
  }
  Flush();
  EXPECT_EQ(ran, 1000);
}

TEST_F(CallThreadTest, LosesNothingOfManyThreads) {
  std::atomic<int> ran = 0;
  {
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) {
          thread_->Add([&] { ++ran; });
          if (i % 7 == 0) thread_->Ring();
        }
      });
    }
  }
  Flush();
  EXPECT_EQ(ran, 8000);
}

TEST_F(CallThreadTest, DropsWhatComesAfterItStopped) {
  auto kept = std::make_shared<int>();
  server_->Shutdown();
  thread_->Stop();
  thread_->Schedule([kept] {});
  EXPECT_EQ(kept.use_count(), 1);
}

}  // namespace
}  // namespace tvq
