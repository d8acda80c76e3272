#include "server/rpc/calls/snapshots/snapshot_receiver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/refusal.h"
#include "server/rpc/wire/session_convert.h"
#include "tests/server/rpc/mock_session_store.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAtOnce{0};

Reason ReasonOf(const absl::Status& status) { return RefusalOf(status).reason; }

class CountingUpload : public SnapshotUpload {
 public:
  explicit CountingUpload(size_t limit) : limit_(limit) {}
  absl::Status Add(std::span<const char> bytes) override {
    size_ += bytes.size();
    return size_ > limit_ ? Refused(Reason::kSnapshotTooLarge, "too large") : absl::OkStatus();
  }

 private:
  const size_t limit_;
  size_t size_ = 0;
};

class SnapshotReceiverTest : public testing::Test {
 protected:
  SnapshotReceiverTest() {
    ON_CALL(store_, NewUpload).WillByDefault([] { return std::make_unique<CountingUpload>(5000); });
  }

  // Whose patience is a second.
  std::unique_ptr<SnapshotReceiver> NewReceiver(const std::string& owner = "a") {
    return std::make_unique<SnapshotReceiver>(&store_, ByteQuota::Share(&quota_, owner),
                                              std::chrono::seconds(1));
  }

  testing::NiceMock<MockSessionStore> store_;
  ByteQuota quota_{"snapshots", 6000};
};

TEST_F(SnapshotReceiverTest, QuotaIsSharedAndGivenBack) {
  auto first = NewReceiver();
  const auto second = NewReceiver();
  EXPECT_TRUE(first->Add(std::string(4000, 'x'), kAtOnce).ok());
  EXPECT_EQ(ReasonOf(second->Add(std::string(3000, 'x'), kAtOnce)), Reason::kMemoryFull);
  first = nullptr;
  EXPECT_TRUE(second->Add(std::string(3000, 'x'), kAtOnce).ok());
}

TEST_F(SnapshotReceiverTest, ManyOfOneOwnerLeaveRoomForAnothers) {
  std::vector<std::unique_ptr<SnapshotReceiver>> many;
  absl::Status status;
  while (status.ok() && many.size() < 60) {
    many.push_back(NewReceiver());
    status = many.back()->Add(std::string(100, 'x'), kAtOnce);
  }
  EXPECT_EQ(ReasonOf(status), Reason::kMemoryFull) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("chunk: snapshots take"));
  EXPECT_TRUE(NewReceiver("b")->Add(std::string(300, 'x'), kAtOnce).ok());
}

TEST_F(SnapshotReceiverTest, SaysWhyTheUploadTakesNoMore) {
  const auto receiver = NewReceiver();
  EXPECT_TRUE(receiver->empty());
  EXPECT_EQ(ReasonOf(receiver->Add(std::string(5001, 'x'), kAtOnce)), Reason::kSnapshotTooLarge);
}

TEST_F(SnapshotReceiverTest, ChunksAreBounded) {
  const auto receiver = NewReceiver();
  EXPECT_EQ(receiver->Add(std::string(kSnapshotChunkBytes + 1, 'x'), kAtOnce).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(SnapshotReceiverTest, WhatTheCallKeepsCounts) {
  auto first = NewReceiver();
  const auto second = NewReceiver();
  ASSERT_TRUE(first->Keep(5000).ok());
  EXPECT_TRUE(first->empty());
  EXPECT_EQ(ReasonOf(second->Keep(1001)), Reason::kMemoryFull);
  first = nullptr;
  EXPECT_TRUE(second->Keep(1001).ok());
}

// Each chunk in time, all of them too late.
TEST_F(SnapshotReceiverTest, ASnapshotThatTricklesIsGivenUp) {
  const auto receiver = NewReceiver();
  EXPECT_TRUE(receiver->Add("x", milliseconds(500)).ok());
  EXPECT_EQ(receiver->Add("x", milliseconds(501)).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(SnapshotReceiverTest, ASnapshotMayTakeLongerTheLongerItIs) {
  ON_CALL(store_, NewUpload).WillByDefault([] {
    return std::make_unique<CountingUpload>(size_t{1} << 20);
  });
  ByteQuota quota("snapshots", int64_t{1} << 20);
  SnapshotReceiver receiver(&store_, ByteQuota::Share(&quota, "a"), std::chrono::seconds(1));
  const std::string second(kSlowestSender, 'x');
  for (int i = 1; i <= 10; ++i) EXPECT_TRUE(receiver.Add(second, milliseconds(1000)).ok()) << i;
  EXPECT_EQ(receiver.Add("", milliseconds(1001)).code(), absl::StatusCode::kDeadlineExceeded);
}

// What came fast at first gives no time to what comes slowly now.
TEST_F(SnapshotReceiverTest, ASnapshotMayNotBeginFastAndThenTrickle) {
  ON_CALL(store_, NewUpload).WillByDefault([] {
    return std::make_unique<CountingUpload>(size_t{1} << 20);
  });
  ByteQuota quota("snapshots", int64_t{1} << 20);
  SnapshotReceiver receiver(&store_, ByteQuota::Share(&quota, "a"), std::chrono::seconds(1));
  ASSERT_TRUE(receiver.Add(std::string(60 * kSlowestSender, 'x'), kAtOnce).ok());
  EXPECT_TRUE(receiver.Add("x", milliseconds(500)).ok());
  const absl::Status status = receiver.Add("x", milliseconds(501));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

}  // namespace
}  // namespace tvq
