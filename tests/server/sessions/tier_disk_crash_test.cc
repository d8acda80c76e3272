// The disk tier when the process ends, or a call to the system fails, at every single step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "server/sessions/durable/disk/tier_disk.h"
#include "tests/models/runtime/temp_dir.h"
#include "tests/server/sessions/stored_bytes.h"

namespace tvq {
namespace {

using fixtures::CheckVersion;
using fixtures::PutNewest;
using fixtures::PutVersion;
using fixtures::TempDir;
using fixtures::TestId;
using fixtures::TestRecord;
using ::testing::ElementsAre;

// Calls `before` ahead of every step, with its name; an error takes the place of the step. Of a
// write, half was done by then. The system itself goes on, so there is nothing to sync.
class SteppedFiles : public DiskFiles {
 public:
  using Before = std::function<absl::Status(const std::string& step)>;
  explicit SteppedFiles(Before before) : before_(std::move(before)) {}

  absl::StatusOr<int> Create(const std::string& path) override {
    absl::Status s = before_("create");
    return s.ok() ? DiskFiles::Create(path) : s;
  }
  absl::Status Write(int file, const std::string& path, std::span<const std::byte> bytes) override {
    absl::Status s = DiskFiles::Write(file, path, bytes.first(bytes.size() / 2));
    if (s.ok()) s = before_("write");
    return s.ok() ? DiskFiles::Write(file, path, bytes.subspan(bytes.size() / 2)) : s;
  }
  absl::Status Sync(int, const std::string&) override { return before_("sync"); }
  absl::Status SyncDirectory(const std::string&) override { return before_("sync directory"); }
  absl::Status SyncFileSystem(const std::string&) override { return before_("sync file system"); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    absl::Status s = before_("rename");
    return s.ok() ? DiskFiles::Rename(from, to) : s;
  }
  absl::Status Remove(const std::string& path) override {
    absl::Status s = before_("remove");
    return s.ok() ? DiskFiles::Remove(path) : s;
  }
  absl::Status MakeDirectory(const std::string& path) override {
    absl::Status s = before_("make directory");
    return s.ok() ? DiskFiles::MakeDirectory(path) : s;
  }
  absl::Status RemoveDirectory(const std::string& path) override {
    absl::Status s = before_("remove directory");
    return s.ok() ? DiskFiles::RemoveDirectory(path) : s;
  }

 private:
  const Before before_;
};

std::unique_ptr<DiskTier> Open(const std::string& dir, SteppedFiles::Before before) {
  return DiskTier::Open(dir, 0, std::make_unique<SteppedFiles>(std::move(before))).value();
}
std::unique_ptr<DiskTier> Open(const std::string& dir) {
  return Open(dir, [](const std::string&) { return absl::OkStatus(); });
}

const std::string kOne = TestId(1), kTwo = TestId(2);

// What a server does with two sessions: commits, marks before and after the states of their
// records, a replaced version, a deletion. Returns after the first call that fails; calls `done`
// after each that succeeds.
constexpr int kCalls = 10;
void Live(DurableTier& tier, const std::function<void()>& done) {
  const std::function<absl::Status()> calls[kCalls] = {
      [&] { return PutNewest(tier, TestRecord(kOne, 1)); },
      [&] { return PutNewest(tier, TestRecord(kTwo, 1)); },
      [&] { return PutNewest(tier, TestRecord(kOne, 2, {1})); },
      [&] { return PutNewest(tier, TestRecord(kOne, 3, {1})); },
      [&] { return PutVersion(tier, TestRecord(kOne, 3, {1}), 1); },
      [&] { return PutVersion(tier, TestRecord(kOne, 4, {2, 3}), 2); },
      [&] { return PutVersion(tier, TestRecord(kOne, 4, {2, 3}), 3); },
      [&] { return PutNewest(tier, TestRecord(kOne, 4, {2, 3})); },
      [&] { return tier.Delete(kTwo); },
      [&] { return PutNewest(tier, TestRecord(kTwo, 1)); }};
  for (const auto& call : calls) {
    if (!call().ok()) return;
    done();
  }
}

// Of each session, the newest version after `calls` calls; 0: none.
constexpr int kNewestOne[kCalls + 1] = {0, 1, 1, 2, 3, 3, 3, 3, 4, 4, 4};
constexpr int kNewestTwo[kCalls + 1] = {0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1};

// The tier must hold the sessions as after `calls` calls or, for the call that was under way, one
// more.
void ExpectCallsDone(DurableTier& tier, int calls) {
  const int more = std::min(calls + 1, kCalls);
  const auto check = [&](const std::string& id, int newest, int perhaps) {
    absl::StatusOr<SessionRecord> record = tier.Find(id);
    const int64_t found = record.ok() ? record->version : 0;
    ASSERT_TRUE(record.ok() || absl::IsNotFound(record.status())) << record.status();
    EXPECT_TRUE(found == newest || found == perhaps)
        << "version " << found << " after " << calls << " calls";
    if (!record.ok()) return;
    EXPECT_TRUE(CheckVersion(tier, id, found).ok()) << CheckVersion(tier, id, found);
    for (const MarkRecord& mark : record->marks) {
      EXPECT_TRUE(CheckVersion(tier, id, mark.version).ok()) << "mark " << mark.version;
    }
  };
  check(kOne, kNewestOne[calls], kNewestOne[more]);
  check(kTwo, kNewestTwo[calls], kNewestTwo[more]);
}

// A process that ends at the given step; how many calls it acknowledged. -1: it did not come to the
// step.
int DieAt(const std::string& dir, int step) {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    int steps = 0;
    const auto tier = Open(dir, [&](const std::string&) {
      if (steps++ == step) _exit(0);
      return absl::OkStatus();
    });
    Live(*tier, [&] { (void)!write(fds[1], "x", 1); });
    _exit(1);
  }
  close(fds[1]);
  int acknowledged = 0;
  char byte;
  while (read(fds[0], &byte, 1) == 1) ++acknowledged;
  close(fds[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2) << status;
  return WEXITSTATUS(status) == 1 ? -1 : acknowledged;
}

TEST(DiskTierCrashTest, NoEndLosesWhatWasAcknowledged) {
  int step = 0;
  for (;; ++step) {
    SCOPED_TRACE(step);
    const TempDir dir;
    const int acknowledged = DieAt(dir.path(), step);
    if (acknowledged < 0) break;
    const auto tier = Open(dir.path());
    EXPECT_TRUE(tier->problems().empty());
    ExpectCallsDone(*tier, acknowledged);
    if (HasFailure()) return;

    // Nothing is left behind, and the budget's count is that of the files.
    int64_t bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
      if (!entry.is_regular_file() || entry.path().filename() == "lock") continue;
      EXPECT_EQ(entry.path().extension(), ".snap");
      bytes += static_cast<int64_t>(entry.file_size());
    }
    EXPECT_EQ(tier->usage().bytes, bytes);
    int done = 0;
    Live(*tier, [&] { ++done; });  // some are refused: a later version is there
    const int old = kNewestOne[acknowledged];
    EXPECT_TRUE(done == kCalls || old > 0) << done;
  }
  EXPECT_GT(step, 50);  // the test walked through the calls at all
}

// An error in the place of a step: the call fails, what was stored before it is as it was, and the
// tier goes on.
TEST(DiskTierCrashTest, NoErrorLosesWhatWasAcknowledged) {
  for (int step = 0;; ++step) {
    SCOPED_TRACE(step);
    const TempDir dir;
    int steps = 0;
    int acknowledged = 0;
    bool failed = false;
    {
      auto tier = DiskTier::Open(dir.path(), 0,
                                 std::make_unique<SteppedFiles>([&](const std::string& what) {
                                   if (steps++ != step) return absl::OkStatus();
                                   failed = true;
                                   return absl::UnavailableError(what + " failed");
                                 }));
      if (!tier.ok()) continue;
      Live(**tier, [&] { ++acknowledged; });
      if (!failed) break;
      ExpectCallsDone(**tier, acknowledged);
      if (HasFailure()) return;
      EXPECT_TRUE(PutNewest(**tier, TestRecord(kOne, 9)).ok());
    }
    const auto tier = Open(dir.path());
    EXPECT_EQ(tier->Find(kOne)->version, 9);
    EXPECT_TRUE(CheckVersion(*tier, kOne, 9).ok());
  }
}

// Order is what a loss of power is survived by: bytes before the name, the name before the answer,
// the old version after all of it.
TEST(DiskTierCrashTest, SyncsBytesBeforeTheNameAndTheNameBeforeTheAnswer) {
  const TempDir dir;
  std::vector<std::string> steps;
  const auto tier = Open(dir.path(), [&](const std::string& what) {
    if (steps.empty() || steps.back() != what) steps.push_back(what);
    return absl::OkStatus();
  });
  EXPECT_THAT(steps, ElementsAre("make directory", "sync directory", "sync file system"));
  steps.clear();
  ASSERT_TRUE(PutNewest(*tier, TestRecord(kOne, 1)).ok());
  EXPECT_THAT(steps, ElementsAre("make directory", "sync directory", "create", "write", "sync",
                                 "rename", "sync directory"));
  steps.clear();
  ASSERT_TRUE(PutNewest(*tier, TestRecord(kOne, 2)).ok());
  EXPECT_THAT(steps, ElementsAre("create", "write", "sync", "rename", "sync directory", "remove"));
  steps.clear();
  ASSERT_TRUE(tier->Delete(kOne).ok());
  EXPECT_THAT(steps, ElementsAre("rename", "sync directory", "remove", "remove directory"));
}

// Nobody knows whether an end came before the new names were synced.
TEST(DiskTierCrashTest, ANewStartSyncsWhatItFindsBeforeItRemovesWhatThatSupersedes) {
  const TempDir dir;
  const std::string first = dir.path() + "/" + kOne + "/v1.snap", aside = dir.path() + "/aside";
  {
    const auto tier = Open(dir.path());
    ASSERT_TRUE(PutNewest(*tier, TestRecord(kOne, 1)).ok());
    std::filesystem::copy_file(first, aside);
    ASSERT_TRUE(PutNewest(*tier, TestRecord(kOne, 2)).ok());
    ASSERT_TRUE(PutNewest(*tier, TestRecord(kTwo, 1)).ok());
  }
  std::filesystem::rename(aside, first);
  std::filesystem::rename(dir.path() + "/" + kTwo, dir.path() + "/" + kTwo + ".deleted");
  std::vector<std::string> steps;
  const auto tier = Open(dir.path(), [&](const std::string& what) {
    steps.push_back(what);
    return absl::OkStatus();
  });
  EXPECT_THAT(steps, ElementsAre("make directory", "sync directory", "sync file system", "remove",
                                 "remove", "remove directory"));
  EXPECT_EQ(tier->Find(kOne)->version, 2);
}

}  // namespace
}  // namespace tvq
