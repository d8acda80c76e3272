#include "server/drain/hand_over.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/wire/status.h"
#include "tests/server/rpc/mock_session_store.h"
#include "tvq/v1/admin.grpc.pb.h"

namespace tvq {
namespace {

using testing::_;
using testing::Field;
using testing::NiceMock;
using testing::Return;

// A server that has room for one session at a time, and refuses what comes beside it. Each session
// keeps its room until another was refused, or is the last: the senders are in each other's way.
class NarrowPeer : public v1::AdminService::Service {
 public:
  explicit NarrowPeer(size_t sessions, std::string pushback = "1")
      : sessions_(sessions), pushback_(std::move(pushback)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~NarrowPeer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  // Refuses everything from now on.
  void Fill() {
    const std::lock_guard lock(mutex_);
    full_ = true;
  }
  void WaitForRefusals(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return refused_ >= count; });
  }

  const std::string& address() const { return address_; }
  int refused() {
    const std::lock_guard lock(mutex_);
    return refused_;
  }
  std::set<std::string> taken() {
    const std::lock_guard lock(mutex_);
    return taken_;
  }

  grpc::Status AdoptSession(grpc::ServerContext* context,
                            grpc::ServerReader<v1::AdoptSessionRequest>* reader,
                            v1::AdoptSessionResponse*) override {
    std::string id;
    v1::AdoptSessionRequest message;
    while (reader->Read(&message)) id += message.chunk();
    std::unique_lock lock(mutex_);
    if (full_ || occupied_) {
      ++refused_;
      changed_.notify_all();
      if (!pushback_.empty()) context->AddTrailingMetadata(kRetryPushbackTrailer, pushback_);
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "no room"};
    }
    occupied_ = true;
    const int before = refused_;
    const bool last = taken_.size() + 1 == sessions_;
    changed_.wait(lock, [&] { return refused_ > before || last; });
    occupied_ = false;
    taken_.insert(id);
    return grpc::Status::OK;
  }

 private:
  const size_t sessions_;
  const std::string pushback_;
  std::string address_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool full_ = false;
  bool occupied_ = false;
  int refused_ = 0;
  std::set<std::string> taken_;
  std::unique_ptr<grpc::Server> server_;
};

class TextStream : public SnapshotStream {
 public:
  explicit TextStream(std::string text) : text_(std::move(text)) {}
  int64_t total_bytes() const override { return static_cast<int64_t>(text_.size()); }
  int64_t kept_bytes() const override { return total_bytes(); }
  absl::StatusOr<std::string> Next(int64_t) override { return std::exchange(text_, ""); }

 private:
  std::string text_;
};

// A store of sessions whose snapshots are their ids.
class SendingStore : public NiceMock<MockSessionStore> {
 public:
  explicit SendingStore(const std::set<std::string>& ids) {
    std::vector<SessionRecord> records;
    records.reserve(ids.size());
    for (const std::string& id : ids) records.push_back({.id = id, .version = 1});
    ON_CALL(*this, HeldHere()).WillByDefault(Return(records));
    ON_CALL(*this, ExportPart(_, "")).WillByDefault([](const std::string& id, const std::string&) {
      return std::make_unique<TextStream>(id);
    });
  }
};

SteadyTime In(std::chrono::seconds time) { return std::chrono::steady_clock::now() + time; }

TEST(HandOverTest, SendsAgainWhatThePeerHadNoRoomFor) {
  const std::set<std::string> ids = {"a", "b", "c", "d", "e", "f", "g"};
  NarrowPeer peer(ids.size());
  SendingStore store(ids);
  for (const std::string& id : ids) {
    EXPECT_CALL(store, Delete(Field(&SessionCall::id, id))).Times(1);
  }
  const auto result = HandOver(store, {.address = peer.address()}, In(std::chrono::hours(1)), {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->taken, 7);
  EXPECT_EQ(result->left, 0);
  EXPECT_EQ(peer.taken(), ids);
  EXPECT_GE(peer.refused(), 6) << "the peer was too wide for the test";
}

TEST(HandOverTest, SendsNothingAgainThatThePeerWillNeverTake) {
  for (const char* pushback : {"", "-1", "soon"}) {
    NarrowPeer peer(/*sessions=*/2, pushback);
    peer.Fill();
    SendingStore store({"a", "b"});
    EXPECT_CALL(store, Delete(_)).Times(0);
    const auto result = HandOver(store, {.address = peer.address()}, In(std::chrono::hours(1)), {});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->left, 2);
    EXPECT_EQ(peer.refused(), 2);
  }
}

TEST(HandOverTest, AFullPeerIsGivenUpWhenItIsToldTo) {
  NarrowPeer peer(/*sessions=*/1, /*pushback=*/"10");
  peer.Fill();
  SendingStore store({"a"});
  EXPECT_CALL(store, Delete(_)).Times(0);
  std::stop_source stop;
  std::jthread impatient([&] {
    peer.WaitForRefusals(3);
    stop.request_stop();
  });
  const auto result =
      HandOver(store, {.address = peer.address()}, In(std::chrono::hours(1)), stop.get_token());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->left, 1);
}

// The peer may have another session of this version under the id, or have it in memory alone.
TEST(HandOverTest, KeepsASessionThatThePeerAlreadyHas) {
  class Peer : public v1::AdminService::Service {
    grpc::Status AdoptSession(grpc::ServerContext*, grpc::ServerReader<v1::AdoptSessionRequest>*,
                              v1::AdoptSessionResponse*) override {
      return {grpc::StatusCode::ALREADY_EXISTS, "here at version 1"};
    }
  } peer;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&peer);
  const auto server = builder.BuildAndStart();
  SendingStore store({"a"});
  EXPECT_CALL(store, Delete(_)).Times(0);
  const auto result =
      HandOver(store, {.address = absl::StrCat("127.0.0.1:", port)}, In(std::chrono::hours(1)), {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->taken, 0);
  EXPECT_EQ(result->left, 1);
}

TEST(HandOverTest, TellsItsKeyToNoOtherMachineWithoutTls) {
  for (const char* address : {"127.0.0.1:50051", "127.1.2.3:1", "[::1]:50051", "localhost:50051",
                              "dns:///127.0.0.1:50051", "0.0.0.0:50051"}) {
    EXPECT_TRUE(CheckPeer({.address = address, .key = "key"}).ok()) << address;
  }
  for (const char* address : {"10.0.0.1:50051", "127.0.0.1.example:50051", "localhost.example:1",
                              "[2001:db8::1]:50051", "dns:///10.0.0.1:50051", "tvq", ""}) {
    EXPECT_EQ(CheckPeer({.address = address, .key = "key"}).code(),
              absl::StatusCode::kFailedPrecondition)
        << address;
    EXPECT_TRUE(CheckPeer({.address = address}).ok()) << "no key to tell";
    EXPECT_TRUE(
        CheckPeer({.address = address, .key = "key", .tls = {.certificate_file = "f"}}).ok());
  }
}

}  // namespace
}  // namespace tvq
