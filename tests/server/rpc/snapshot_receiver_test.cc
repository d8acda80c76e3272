#include "server/rpc/snapshot_receiver.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/rpc/session_convert.h"
#include "tests/server/rpc/mock_session_store.h"

namespace tvq {
namespace {

class CountingUpload : public SnapshotUpload {
 public:
  explicit CountingUpload(size_t limit) : limit_(limit) {}
  absl::Status Add(std::span<const char> bytes) override {
    size_ += bytes.size();
    return size_ <= limit_ ? absl::OkStatus() : absl::ResourceExhaustedError("too large");
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
  testing::NiceMock<MockSessionStore> store_;
  UploadQuota quota_{6000};
};

TEST_F(SnapshotReceiverTest, QuotaIsSharedAndGivenBack) {
  auto first = std::make_unique<SnapshotReceiver>(&store_, &quota_);
  SnapshotReceiver second(&store_, &quota_);
  EXPECT_TRUE(first->Add(std::string(4000, 'x')).ok());
  EXPECT_EQ(second.Add(std::string(3000, 'x')).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(second.busy());
  first = nullptr;
  EXPECT_TRUE(second.Add(std::string(3000, 'x')).ok());
}

TEST_F(SnapshotReceiverTest, TooLargeIsNotBusy) {
  SnapshotReceiver receiver(&store_, &quota_);
  EXPECT_TRUE(receiver.empty());
  EXPECT_EQ(receiver.Add(std::string(5001, 'x')).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(receiver.busy());
}

TEST_F(SnapshotReceiverTest, ChunksAreBounded) {
  SnapshotReceiver receiver(&store_, &quota_);
  EXPECT_EQ(receiver.Add(std::string(kSnapshotChunkBytes + 1, 'x')).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tvq
