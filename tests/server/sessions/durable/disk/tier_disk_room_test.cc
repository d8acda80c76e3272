// The room that sessions in a directory may take, and what is said where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "server/sessions/durable/disk/tier_disk.h"
#include "tests/models/runtime/temp_dir.h"
#include "tests/server/sessions/durable/disk/disk_tier.h"
#include "tests/server/sessions/stored_bytes.h"

namespace tvq {
namespace {

using fixtures::Bytes;
using fixtures::CheckVersion;
using fixtures::DiskSessions;
using fixtures::OpenDisk;
using fixtures::PutNewest;
using fixtures::TempDir;
using fixtures::TestId;
using fixtures::TestRecord;
using fixtures::TestSnapshot;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Of a file system that has so much left.
class FewBytes : public DiskFiles {
 public:
  explicit FewBytes(std::optional<int64_t> free) : free_(free) {}
  std::optional<int64_t> FreeBytes(const std::string&) override { return free_; }

 private:
  const std::optional<int64_t> free_;
};

int64_t BudgetOf(const std::string& dir, std::optional<int64_t> free, int64_t asked = 0) {
  return DiskTier::Open(dir, asked, std::make_unique<FewBytes>(free)).value()->usage().budget;
}

TEST(DiskTierRoomTest, WithoutABudgetTakesNineTenthsOfWhatIsFree) {
  const TempDir dir;
  EXPECT_EQ(BudgetOf(dir.path(), 1000), 900);
  EXPECT_EQ(BudgetOf(dir.path(), 1000, /*asked=*/77), 77);
  EXPECT_EQ(BudgetOf(dir.path(), std::nullopt), 0);
  const auto none = DiskTier::Open(dir.path(), 0, std::make_unique<FewBytes>(0)).value();
  EXPECT_TRUE(absl::IsResourceExhausted(PutNewest(*none, TestRecord(TestId(1), 1))));
}

TEST(DiskTierRoomTest, WhatIsThereCountsBesideWhatIsFree) {
  const TempDir dir;
  ASSERT_TRUE(PutNewest(*OpenDisk(dir.path()), TestRecord(TestId(1), 1)).ok());
  const auto size = std::ssize(TestSnapshot(TestRecord(TestId(1), 1), 1));
  EXPECT_EQ(BudgetOf(dir.path(), 1000), size + 900);
}

TEST(DiskTierRoomTest, CountsWhatIsKeptAgainstTheBudget) {
  const TempDir dir;
  const auto size = std::ssize(TestSnapshot(TestRecord(TestId(1), 1), 1));
  const auto tier = OpenDisk(dir.path(), 2 * size + 10);
  ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 1)).ok());
  ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(2), 1)).ok());
  const absl::Status full = PutNewest(*tier, TestRecord(TestId(3), 1));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("no room for"));
  EXPECT_THAT(std::string(full.message()), Not(HasSubstr(dir.path()))) << "clients read it";
  EXPECT_THAT(DiskSessions(dir.path()),
              ElementsAre(TestId(1) + "/v1.snap", TestId(2) + "/v1.snap"));
  // A new version takes the place of the old one.
  EXPECT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 2)).ok());
  // But not where the old one stays.
  EXPECT_EQ(PutNewest(*tier, TestRecord(TestId(1), 3, {2})).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(CheckVersion(*tier, TestId(1), 2).ok());
  ASSERT_TRUE(tier->Delete(TestId(2)).ok());
  EXPECT_TRUE(PutNewest(*tier, TestRecord(TestId(3), 1)).ok());
  EXPECT_EQ(tier->usage().budget, 2 * size + 10);
  EXPECT_EQ(tier->usage().bytes, 2 * size);
}

TEST(DiskTierRoomTest, AWriterThatFailsLeavesNothing) {
  const TempDir dir;
  const auto tier = OpenDisk(dir.path());
  ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 1)).ok());
  const auto put = [&](const SessionRecord& record, int64_t bytes, auto write) {
    return tier->Put(record, record.version, bytes, write);
  };
  const auto fail = [](const ByteSink& sink) {
    EXPECT_TRUE(sink(Bytes(10)).ok());
    return absl::CancelledError("stopped");
  };
  EXPECT_EQ(put(TestRecord(TestId(1), 2), 100, fail), absl::CancelledError("stopped"));
  EXPECT_EQ(put(TestRecord(TestId(2), 1), 100, fail), absl::CancelledError("stopped"));
  const auto short_of = [](const ByteSink& sink) { return sink(Bytes(99)); };
  EXPECT_EQ(put(TestRecord(TestId(1), 2), 100, short_of).code(), absl::StatusCode::kInternal);
  const auto beyond = [](const ByteSink& sink) { return sink(Bytes(101)); };
  EXPECT_EQ(put(TestRecord(TestId(1), 2), 100, beyond).code(), absl::StatusCode::kInternal);
  EXPECT_THAT(DiskSessions(dir.path()), ElementsAre(TestId(1) + "/v1.snap"));
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/" + TestId(2)));
  EXPECT_TRUE(CheckVersion(*tier, TestId(1), 1).ok());
}

// A real full disk, where the tests may mount one.
TEST(DiskTierRoomTest, AFullDiskIsSaidAndChangesNothing) {
  const TempDir dir;
  if (mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=256k") != 0) {
    GTEST_SKIP() << "no right to mount a small file system";
  }
  {
    const auto tier = OpenDisk(dir.path());
    ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 1), 100'000).ok());
    const absl::Status full = PutNewest(*tier, TestRecord(TestId(1), 2), 200'000);
    EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(full.message()),
                HasSubstr(TestId(1) + "/v2.snap.tmp: No space left on device"));
    EXPECT_EQ(PutNewest(*tier, TestRecord(TestId(2), 1), 200'000).code(),
              absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(DiskSessions(dir.path()), ElementsAre(TestId(1) + "/v1.snap"));
    EXPECT_TRUE(CheckVersion(*tier, TestId(1), 1, 100'000).ok());
    EXPECT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 3), 100'000).ok());
  }
  EXPECT_EQ(umount(dir.path().c_str()), 0);
}

// The same where no mount is allowed: the system refuses files above a size.
TEST(DiskTierRoomTest, AFileThatMayNotGrowIsSaidAndChangesNothing) {
  const TempDir dir;
  const auto tier = OpenDisk(dir.path());
  ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 1)).ok());
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit limit{50'000, old_limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status full = PutNewest(*tier, TestRecord(TestId(1), 2), 200'000);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_THAT(std::string(full.message()), Not(HasSubstr(dir.path()))) << "clients read it";
  EXPECT_THAT(DiskSessions(dir.path()), ElementsAre(TestId(1) + "/v1.snap"));
  EXPECT_TRUE(CheckVersion(*tier, TestId(1), 1).ok());
}

}  // namespace
}  // namespace tvq
