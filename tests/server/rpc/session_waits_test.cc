// Calls that wait for a store of sessions that hangs.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "server/rpc/wire/status.h"
#include "tests/server/rpc/session_calls_fixture.h"
#include "tests/server/rpc/two_keys.h"

namespace tvq {
namespace {

using testing::_;

// Lets Get of the store wait until the test opens it.
class Gate {
 public:
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void WaitFor(int waiting) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= waiting; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

// Many GetSession calls and how they ended.
class ManyGets {
 public:
  ManyGets(v1::SessionService::Stub& stub, int count, const char* key = nullptr) : calls_(count) {
    for (Call& call : calls_) {
      if (key != nullptr) UseKey(key, &call.context);
      call.request.set_session_id(kId);
      stub.async()->GetSession(&call.context, &call.request, &call.response,
                               [this, &call](const grpc::Status& status) { Done(call, status); });
    }
  }

  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_ == static_cast<int>(calls_.size()); });
  }

  // Those that were refused, all of them with a time to try again.
  int Refused() {
    std::unique_lock lock(mutex_);
    int count = 0;
    for (const Call& call : calls_) {
      if (call.code != grpc::StatusCode::RESOURCE_EXHAUSTED) continue;
      EXPECT_EQ(call.context.GetServerTrailingMetadata().count(kRetryPushbackTrailer), 1u);
      ++count;
    }
    return count;
  }
  void WaitForOne() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_ > 0; });
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::GetSessionRequest request;
    v1::GetSessionResponse response;
    grpc::StatusCode code = grpc::StatusCode::UNKNOWN;
  };

  void Done(Call& call, const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    call.code = status.error_code();
    ++done_;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int done_ = 0;
  std::vector<Call> calls_;
};

TEST_F(SessionCallsTest, StoreThatHangsDoesNotHoldUpTheRest) {
  Gate gate;
  ON_CALL(store_, Get(_, _)).WillByDefault([&](const std::string&, const std::string&) {
    gate.Pass();
    return absl::StatusOr<SessionView>(absl::NotFoundError("none"));
  });
  ManyGets gets(*sessions_, 24);
  gate.WaitFor(16);  // as many threads as one caller may have
  v1::GenerateRequest request = Prompt();
  request.clear_session();
  v1::GenerateResponse response;
  EXPECT_TRUE(Generate(request, &response).ok());
  gate.Open();
  gets.Wait();
  EXPECT_EQ(gets.Refused(), 0);
}

TEST_F(SessionCallsTest, CallsThatWaitForTheStoreAreBounded) {
  Gate gate;
  ON_CALL(store_, Get(_, _)).WillByDefault([&](const std::string&, const std::string&) {
    gate.Pass();
    return absl::StatusOr<SessionView>(absl::NotFoundError("none"));
  });
  ManyGets gets(*sessions_, 5000);
  gets.WaitForOne();  // which can only have been refused
  gate.Open();
  gets.Wait();
  EXPECT_GT(gets.Refused(), 0);
  EXPECT_LT(gets.Refused(), 5000);
}

class TwoCallersTest : private TwoKeys, public SessionCallsTest {
 protected:
  TwoCallersTest() : SessionCallsTest({}, gate()) {}
};

// Of the threads, and of what calls that wait may keep.
TEST_F(TwoCallersTest, CallsThatWaitLeaveRoomForAnotherKey) {
  Gate gate;
  ON_CALL(store_, Get(_, _)).WillByDefault([&](const std::string& owner, const std::string&) {
    if (owner == "ana") gate.Pass();
    return absl::StatusOr<SessionView>(absl::NotFoundError("none"));
  });
  ManyGets gets(*sessions_, 5000, kAnasKey);
  gets.WaitForOne();  // which can only have been refused
  grpc::ClientContext context;
  UseKey(kBensKey, &context);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::GetSessionRequest request;
  request.set_session_id(kId);
  v1::GetSessionResponse response;
  const grpc::Status status = sessions_->GetSession(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND) << status.error_message();
  gate.Open();
  gets.Wait();
}

}  // namespace
}  // namespace tvq
