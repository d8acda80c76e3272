#include "server/rpc/transport/stream_writer.h"

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

class StreamWriterTest : public testing::Test {
 protected:
  StreamWriterTest() {
    grpc::ServerBuilder builder;
    writer_ = std::make_unique<StreamWriter>(builder.AddCompletionQueue());
    server_ = builder.BuildAndStart();
    writer_->Start();
  }
  ~StreamWriterTest() override {
    server_->Shutdown();
    writer_->Stop();
  }

  // Returns when everything that was scheduled before has run.
  void Flush() {
    absl::Notification ran;
    writer_->Schedule([&] { ran.Notify(); });
    ran.WaitForNotification();
  }

  std::unique_ptr<StreamWriter> writer_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(StreamWriterTest, RunsTasksInOrderOnOneThread) {
  std::vector<int> ran;
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 3; ++i) {
    writer_->Add([&, i] {
      ran.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  }
  Flush();
  EXPECT_THAT(ran, ElementsAre(0, 1, 2));
  EXPECT_THAT(threads, ElementsAre(threads[0], threads[0], threads[0]));
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST_F(StreamWriterTest, RunsWhatIsAddedWhileItRuns) {
  absl::Notification added, second;
  writer_->Schedule([&] { added.WaitForNotification(); });
  writer_->Add([&] { second.Notify(); });  // nobody rings: the first one's ring will do
  added.Notify();
  second.WaitForNotification();
}

TEST_F(StreamWriterTest, IsRungAgainAfterEachTimeThatItSlept) {
  int ran = 0;
  for (int i = 0; i < 1000; ++i) {
    writer_->Schedule([&] { ++ran; });
    if (i % 10 == 0) Flush();
  }
  Flush();
  EXPECT_EQ(ran, 1000);
}

TEST_F(StreamWriterTest, LosesNothingOfManyThreads) {
  std::atomic<int> ran = 0;
  {
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) {
          writer_->Add([&] { ++ran; });
          if (i % 7 == 0) writer_->Ring();
        }
      });
    }
  }
  Flush();
  EXPECT_EQ(ran, 8000);
}

TEST_F(StreamWriterTest, DropsWhatComesAfterItStopped) {
  auto kept = std::make_shared<int>();
  server_->Shutdown();
  writer_->Stop();
  writer_->Schedule([kept] {});
  EXPECT_EQ(kept.use_count(), 1);
}

}  // namespace
}  // namespace tvq
