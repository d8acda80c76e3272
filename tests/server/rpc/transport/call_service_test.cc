#include "server/rpc/transport/call_service.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace tvq {
namespace {

grpc::ByteBuffer ToBuffer(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

std::string ToText(const grpc::ByteBuffer& bytes) {
  grpc::Slice slice;
  EXPECT_TRUE(bytes.DumpToSingleSlice(&slice).ok());
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

// Holds itself until gRPC is done with it.
class TestCall : public RpcListener {
 public:
  explicit TestCall(std::unique_ptr<Rpc> rpc) : rpc_(std::move(rpc)) { rpc_->Begin(this); }
  virtual ~TestCall() = default;
  void OnDone() override { delete this; }

 protected:
  const std::unique_ptr<Rpc> rpc_;
};

class Echo final : public TestCall {
 public:
  explicit Echo(std::unique_ptr<Rpc> rpc) : TestCall(std::move(rpc)) {
    rpc_->WriteAndFinish(rpc_->request, grpc::Status::OK);
  }
};

// Sends back each message that comes, and the status when none does.
class EchoAll final : public TestCall {
 public:
  explicit EchoAll(std::unique_ptr<Rpc> rpc) : TestCall(std::move(rpc)) { rpc_->Read(&message_); }
  void OnRead(bool ok) override {
    ok ? rpc_->Write(message_) : rpc_->Finish({grpc::StatusCode::ABORTED, "that was all"});
  }
  void OnWritten(bool) override { rpc_->Read(&message_); }

 private:
  grpc::ByteBuffer message_;
};

// Ends while a read is in flight.
class Impatient final : public TestCall {
 public:
  explicit Impatient(std::unique_ptr<Rpc> rpc) : TestCall(std::move(rpc)) {
    rpc_->Read(&message_);
    rpc_->Finish({grpc::StatusCode::ABORTED, "too late"});
  }
  ~Impatient() override { EXPECT_TRUE(read_) << "done before the read"; }
  void OnRead(bool ok) override {
    EXPECT_FALSE(ok);
    read_ = true;
  }

 private:
  bool read_ = false;
  grpc::ByteBuffer message_;
};

struct Seen {
  absl::Notification begun, cancelled, done;
};

// Does nothing until it is cancelled.
class Waiting final : public TestCall {
 public:
  Waiting(std::unique_ptr<Rpc> rpc, Seen* seen) : TestCall(std::move(rpc)), seen_(seen) {
    seen_->begun.Notify();
  }
  ~Waiting() override { seen_->done.Notify(); }
  void OnCancel() override {
    seen_->cancelled.Notify();
    rpc_->Write(ToBuffer("nobody reads this"));
  }
  void OnWritten(bool ok) override {
    EXPECT_FALSE(ok);
    rpc_->Finish(grpc::Status::CANCELLED);
  }

 private:
  Seen* const seen_;
};

class TestService final : public CallService {
 public:
  TestService() {
    Add("/test/Echo", Requests::kOne, [](auto rpc) { new Echo(std::move(rpc)); });
    Add("/test/EchoAll", Requests::kStream, [](auto rpc) { new EchoAll(std::move(rpc)); });
    Add("/test/Impatient", Requests::kStream, [](auto rpc) { new Impatient(std::move(rpc)); });
    Add("/test/Waiting", Requests::kOne, [this](auto rpc) { new Waiting(std::move(rpc), &seen); });
  }

  Seen seen;
};

// A call whose client waits for each operation.
class RawCall {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
    grpc::GenericStub stub(channel);
    call_ = stub.PrepareCall(&context, method, &queue_);
    call_->StartCall(nullptr);
    EXPECT_TRUE(Wait());
  }
  ~RawCall() { queue_.Shutdown(); }

  void Write(const std::string& text) {
    call_->Write(ToBuffer(text), nullptr);
    EXPECT_TRUE(Wait());
  }
  void WritesDone() {
    call_->WritesDone(nullptr);
    EXPECT_TRUE(Wait());
  }
  // Empty at the end.
  std::string Read() {
    grpc::ByteBuffer bytes;
    call_->Read(&bytes, nullptr);
    return Wait() ? ToText(bytes) : "";
  }
  grpc::StatusCode Finish() {
    grpc::Status status;
    call_->Finish(&status, nullptr);
    EXPECT_TRUE(Wait());
    return status.error_code();
  }

  grpc::ClientContext context;

 private:
  bool Wait() {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue_.Next(&tag, &ok));
    return ok;
  }

  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

class CallServiceTest : public testing::Test {
 protected:
  CallServiceTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    for (int i = 0; i < 2; ++i) {
      threads_.push_back(std::make_unique<CallThread>(builder.AddCompletionQueue()));
    }
    server_ = builder.BuildAndStart();
    for (const auto& thread : threads_) {
      thread->Start();
      service_.Take(thread.get());
    }
    channel_ =
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  }
  // Returns: no call is left.
  ~CallServiceTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
    for (const auto& thread : threads_) thread->Stop();
  }

  TestService service_;
  std::vector<std::unique_ptr<CallThread>> threads_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(CallServiceTest, AnswersManyCallsAtOnce) {
  std::vector<std::jthread> clients;
  clients.reserve(4);
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 50; ++i) {
        RawCall call(channel_, "/test/Echo");
        const std::string text = absl::StrCat(client, ":", i);
        call.Write(text);
        call.WritesDone();
        EXPECT_EQ(call.Read(), text);
        EXPECT_EQ(call.Read(), "");
        EXPECT_EQ(call.Finish(), grpc::StatusCode::OK);
      }
    });
  }
}

TEST_F(CallServiceTest, ReadsAndWritesStreams) {
  RawCall call(channel_, "/test/EchoAll");
  for (const char* text : {"one", "two", "three"}) {
    call.Write(text);
    EXPECT_EQ(call.Read(), text);
  }
  call.WritesDone();
  EXPECT_EQ(call.Read(), "");
  EXPECT_EQ(call.Finish(), grpc::StatusCode::ABORTED);
}

TEST_F(CallServiceTest, ACallMayEndWhileItReads) {
  RawCall call(channel_, "/test/Impatient");
  EXPECT_EQ(call.Finish(), grpc::StatusCode::ABORTED);
}

TEST_F(CallServiceTest, ACallHearsThatItIsCancelled) {
  RawCall call(channel_, "/test/Waiting");
  call.Write("");
  service_.seen.begun.WaitForNotification();
  call.context.TryCancel();
  EXPECT_EQ(call.Finish(), grpc::StatusCode::CANCELLED);
  service_.seen.cancelled.WaitForNotification();
  service_.seen.done.WaitForNotification();
}

TEST_F(CallServiceTest, AServerThatEndsCancelsCalls) {
  RawCall call(channel_, "/test/Waiting");
  call.Write("");
  service_.seen.begun.WaitForNotification();
  server_->Shutdown(std::chrono::system_clock::now());
  for (const auto& thread : threads_) thread->Stop();
  EXPECT_TRUE(service_.seen.done.HasBeenNotified());
  EXPECT_NE(call.Finish(), grpc::StatusCode::OK);
}

}  // namespace
}  // namespace tvq
