#include "server/rpc/transport/wakeful_pollers.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace tvq {
namespace {

std::string FirstWord(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// The files that tell in which system call each of gRPC's threads for callbacks is.
std::vector<std::filesystem::path> Pollers() {
  std::vector<std::filesystem::path> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (FirstWord(task.path() / "comm") == "nexting_thread")
      found.push_back(task.path() / "syscall");
  }
  return found;
}

bool AllSleep(const std::vector<std::filesystem::path>& pollers) {
  for (const auto& poller : pollers) {
    if (FirstWord(poller) != std::to_string(SYS_clock_nanosleep)) return false;
  }
  return true;
}

// Has gRPC start them, as it does for the first call with a callback, and keep them.
class Started {
 public:
  Started() {
    nowhere_.UnaryCall(&context_, "/nowhere", grpc::StubOptions(), &request_, &response_,
                       [this](const grpc::Status&) { ended_.set_value(); });
    ended_.get_future().wait();
    while (Pollers().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

 private:
  const grpc::Slice empty_;
  grpc::GenericStub nowhere_{grpc::CreateCustomChannel("", nullptr, grpc::ChannelArguments())};
  const grpc::ByteBuffer request_{&empty_, 1};
  grpc::ByteBuffer response_;
  std::promise<void> ended_;
  grpc::ClientContext context_;
};

// Without the calls all sleep from second 1.0 to 1.1, 2.1 to 2.2, ...
TEST(WakefulPollersTest, OneOfThemIsAlwaysAwake) {
  if (FirstWord("/proc/self/syscall").empty()) GTEST_SKIP() << "the kernel does not tell";
  const Started started;
  const WakefulPollers wakeful;
  int asleep = 0;
  for (int i = 0; i < 250; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (AllSleep(Pollers())) ++asleep;
  }
  // Without the calls about 23. Two are a machine that held up the calls for long enough.
  EXPECT_LE(asleep, 2);
}

}  // namespace
}  // namespace tvq
