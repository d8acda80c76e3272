#include "base/read_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

namespace tvq {
namespace {

using ::testing::HasSubstr;

class ReadNamedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "tvq.XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Complaint(const std::string& file, int64_t max_bytes = 100) {
    const auto text = ReadNamedFile("key file", file, Pipes::kDoNotWait, max_bytes);
    EXPECT_EQ(text.status().code(), absl::StatusCode::kNotFound) << text.status();
    EXPECT_THAT(std::string(text.status().message()),
                HasSubstr("key file " + file + ": cannot be read: "));
    return std::string(text.status().message());
  }

  std::string folder_;
};

TEST_F(ReadNamedFileTest, ReadsTheWholeOfASmallFile) {
  const std::string file = folder_ + "/file";
  std::ofstream(file) << std::string(5000, 'x');
  EXPECT_EQ(*ReadNamedFile("key file", file, Pipes::kWait), std::string(5000, 'x'));
  EXPECT_EQ(*ReadNamedFile("key file", file, Pipes::kDoNotWait, 5000), std::string(5000, 'x'));
  EXPECT_THAT(Complaint(file, 4999), HasSubstr("more than 4999 bytes"));
  EXPECT_THAT(Complaint("/dev/zero"), HasSubstr("more than 100 bytes"));
  EXPECT_THAT(Complaint(folder_), HasSubstr("directory"));
  EXPECT_THAT(Complaint(folder_ + "/none"), HasSubstr("No such file"));
  EXPECT_EQ(*ReadNamedFile("key file", "/dev/null", Pipes::kDoNotWait), "");
}

TEST_F(ReadNamedFileTest, WaitsForWhatComesThroughAPipeIfItMay) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(Complaint(pipe), HasSubstr("a pipe through which nothing comes")) << "no writer";
  std::promise<void> begun;
  std::thread writer([&] {
    std::ofstream out(pipe);
    begun.get_future().wait();
    out << "key";
  });
  const int reader = open(pipe.c_str(), O_RDONLY);  // lets the writer open it
  EXPECT_THAT(Complaint(pipe), HasSubstr("a pipe through which nothing comes")) << "a silent one";
  std::thread opener([&] { begun.set_value(); });
  EXPECT_EQ(*ReadNamedFile("key file", pipe, Pipes::kWait), "key");
  opener.join();
  writer.join();
  close(reader);
}

TEST_F(ReadNamedFileTest, WaitsForAPipeThatSomebodyWritesTo) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto read = [&] { return ReadNamedFile("key file", pipe, Pipes::kWaitIfWritten); };
  EXPECT_THAT(std::string(read().status().message()),
              HasSubstr("a pipe through which nothing comes"))
      << "no writer";
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);  // lets the writer open it
  std::ofstream out(pipe);
  std::future<absl::StatusOr<std::string>> waiting = std::async(std::launch::async, read);
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  out << "key" << std::flush;
  out.close();
  EXPECT_EQ(*waiting.get(), "key");
  close(reader);
}

}  // namespace
}  // namespace tvq
