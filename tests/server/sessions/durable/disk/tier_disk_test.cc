#include "server/sessions/durable/disk/tier_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

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
using fixtures::PutVersion;
using fixtures::TempDir;
using fixtures::TestId;
using fixtures::TestRecord;
using fixtures::TestSnapshot;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<SessionRecord> Records(DurableTier& tier) {
  std::vector<SessionRecord> records;
  EXPECT_TRUE(tier.ForEach([&](SessionRecord r) { records.push_back(std::move(r)); }).ok());
  return records;
}

TEST(DiskTierTest, KeepsSessionsOverARestart) {
  const TempDir dir;
  {
    const auto tier = OpenDisk(dir.path());
    ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 4)).ok());
    ASSERT_TRUE(PutVersion(*tier, TestRecord(TestId(2), 9, {5}), 9, 50'000).ok());
    ASSERT_TRUE(PutVersion(*tier, TestRecord(TestId(2), 9, {5}), 5).ok());
    EXPECT_TRUE(CheckVersion(*tier, TestId(1), 4).ok());
  }
  const auto tier = OpenDisk(dir.path());
  EXPECT_THAT(tier->problems(), IsEmpty());
  EXPECT_TRUE(CheckVersion(*tier, TestId(1), 4).ok());
  EXPECT_TRUE(CheckVersion(*tier, TestId(2), 9, 50'000).ok());
  EXPECT_TRUE(CheckVersion(*tier, TestId(2), 5).ok());
  const std::vector<SessionRecord> records = Records(*tier);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1].version, 9);
  EXPECT_EQ(records[1].persisted_version, 9);
  EXPECT_EQ(tier->Find(TestId(1))->version, 4);
  EXPECT_EQ(tier->usage().sessions, 2);
  EXPECT_TRUE(absl::IsNotFound(tier->Get(TestId(1), 3).status()));
  EXPECT_TRUE(absl::IsNotFound(tier->Get(TestId(3), 1).status()));
  EXPECT_TRUE(absl::IsNotFound(tier->Find(TestId(3)).status()));
}

TEST(DiskTierTest, DropsVersionsThatTheNewestRecordDoesNotName) {
  const TempDir dir;
  const auto tier = OpenDisk(dir.path());
  const std::string id = TestId(1);
  ASSERT_TRUE(PutNewest(*tier, TestRecord(id, 1)).ok());
  ASSERT_TRUE(PutNewest(*tier, TestRecord(id, 2, {1})).ok());
  EXPECT_THAT(DiskSessions(dir.path()), ElementsAre(id + "/v1.snap", id + "/v2.snap"));
  ASSERT_TRUE(PutNewest(*tier, TestRecord(id, 4, {2})).ok());
  EXPECT_THAT(DiskSessions(dir.path()), ElementsAre(id + "/v2.snap", id + "/v4.snap"));
  ASSERT_TRUE(PutNewest(*tier, TestRecord(id, 5)).ok());
  EXPECT_THAT(DiskSessions(dir.path()), ElementsAre(id + "/v5.snap"));
  EXPECT_TRUE(absl::IsNotFound(tier->Get(id, 4).status()));
  const auto bytes = std::ssize(TestSnapshot(TestRecord(id, 5), 5));
  EXPECT_EQ(tier->usage().bytes, bytes);
}

// As older servers wrote them: all marks with each mark's state.
TEST(DiskTierTest, ReadsMarksThatListAllMarks) {
  const TempDir dir;
  const std::string id = TestId(1);
  const SessionRecord record = TestRecord(id, 9, {2, 4, 6});
  int64_t bytes = 0;
  {
    const auto tier = OpenDisk(dir.path());
    for (const int64_t version : {2, 4, 6, 9}) ASSERT_TRUE(PutVersion(*tier, record, version).ok());
    bytes = tier->usage().bytes;
  }
  const auto tier = OpenDisk(dir.path());
  EXPECT_EQ(tier->usage().bytes, bytes);
  EXPECT_EQ(tier->Find(id)->marks.size(), 3U);
  ASSERT_TRUE(PutNewest(*tier, TestRecord(id, 10, {4, 9})).ok());
  EXPECT_THAT(DiskSessions(dir.path()),
              ElementsAre(id + "/v10.snap", id + "/v4.snap", id + "/v9.snap"));
  EXPECT_EQ(tier->Find(id)->marks.size(), 2U);
}

TEST(DiskTierTest, AFolderThatIsGoneIsNoMissingSession) {
  const TempDir dir;
  const auto tier = OpenDisk(dir.path());
  const std::string id = TestId(1), folder = dir.path() + "/" + id, aside = dir.path() + "-aside";
  ASSERT_TRUE(PutNewest(*tier, TestRecord(id, 1)).ok());
  std::filesystem::rename(folder, aside);
  const absl::Status put = PutNewest(*tier, TestRecord(id, 2, {1}));
  EXPECT_EQ(put.code(), absl::StatusCode::kUnavailable) << put;
  EXPECT_FALSE(std::filesystem::exists(folder)) << "what is missing must show";
  std::filesystem::rename(aside, folder);
  EXPECT_TRUE(PutNewest(*tier, TestRecord(id, 2, {1})).ok());
  EXPECT_TRUE(CheckVersion(*tier, id, 1).ok());
  EXPECT_TRUE(CheckVersion(*tier, id, 2).ok());
}

TEST(DiskTierTest, ADirectoryThatIsGoneIsNoMissingSession) {
  const TempDir dir;
  const std::string sessions = dir.path() + "/sessions";
  const auto tier = OpenDisk(sessions);
  ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 1)).ok());
  std::filesystem::remove_all(sessions);
  for (int n : {1, 2}) {
    const absl::Status put = PutNewest(*tier, TestRecord(TestId(n), 2));
    EXPECT_EQ(put.code(), absl::StatusCode::kUnavailable) << put;
  }
}

TEST(DiskTierTest, RefusesAnEarlierVersion) {
  const TempDir dir;
  const auto tier = OpenDisk(dir.path());
  ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 7)).ok());
  EXPECT_EQ(PutNewest(*tier, TestRecord(TestId(1), 6)).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 7)).ok());
  EXPECT_EQ(PutVersion(*tier, TestRecord(TestId(1), 8, {7}), 6).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(CheckVersion(*tier, TestId(1), 7).ok());
}

TEST(DiskTierTest, DeletesAllVersions) {
  const TempDir dir;
  const auto tier = OpenDisk(dir.path());
  ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 1)).ok());
  ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 2, {1})).ok());
  ASSERT_TRUE(tier->Delete(TestId(1)).ok());
  EXPECT_THAT(DiskSessions(dir.path()), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(tier->Find(TestId(1)).status()));
  EXPECT_EQ(tier->usage().bytes, 0);
  EXPECT_TRUE(tier->Delete(TestId(1)).ok());
  EXPECT_TRUE(tier->Delete(TestId(2)).ok());
  EXPECT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 1)).ok());
}

TEST(DiskTierTest, AReaderKeepsWhatIsReplacedMeanwhile) {
  const TempDir dir;
  const auto tier = OpenDisk(dir.path());
  const SessionRecord record = TestRecord(TestId(1), 1);
  ASSERT_TRUE(PutNewest(*tier, record).ok());
  auto source = tier->Get(TestId(1), 1);
  ASSERT_TRUE(source.ok());
  ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 2)).ok());
  Bytes bytes(TestSnapshot(record, 1).size());
  ASSERT_TRUE((*source)->Read(bytes).ok());
  EXPECT_EQ(bytes, TestSnapshot(record, 1));
}

TEST(DiskTierTest, ChecksIdsBeforeTheyBecomePaths) {
  const TempDir dir;
  const auto tier = OpenDisk(dir.path() + "/sessions");
  dir.Write("v1.snap", "outside");
  for (const char* id : {"..", "", ".", "../..", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}) {
    EXPECT_EQ(tier->Get(id, 1).status().code(), absl::StatusCode::kInvalidArgument) << id;
    EXPECT_EQ(tier->Find(id).status().code(), absl::StatusCode::kInvalidArgument) << id;
    EXPECT_EQ(tier->Delete(id).code(), absl::StatusCode::kInvalidArgument) << id;
    EXPECT_EQ(PutNewest(*tier, TestRecord(id, 1)).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(DiskTierTest, KeepsASecondServerOut) {
  const TempDir dir;
  auto tier = OpenDisk(dir.path());
  const absl::Status second = DiskTier::Open(dir.path(), 0).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()), HasSubstr(dir.path() + "/lock is held by another"));
  tier.reset();
  EXPECT_TRUE(DiskTier::Open(dir.path(), 0).ok());
}

TEST(DiskTierTest, NamesADirectoryThatCannotBeUsed) {
  const TempDir dir;
  const absl::Status deep = DiskTier::Open(dir.path() + "/a/b", 0).status();
  EXPECT_THAT(std::string(deep.message()), HasSubstr(dir.path() + "/a/b"));
  const absl::Status file = DiskTier::Open(dir.Write("file", ""), 0).status();
  EXPECT_THAT(std::string(file.message()), HasSubstr("/file: "));
}

TEST(DiskTierTest, SetsAsideWhatIsCorrupt) {
  const TempDir dir;
  {
    const auto tier = OpenDisk(dir.path());
    for (int i = 1; i <= 4; ++i) ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(i), 2)).ok());
    ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(5), 2, {1})).ok());
    ASSERT_TRUE(PutVersion(*tier, TestRecord(TestId(5), 2, {1}), 1).ok());
  }
  const auto path = [&](int i) { return dir.path() + "/" + TestId(i) + "/v2.snap"; };
  std::filesystem::resize_file(path(1), std::filesystem::file_size(path(1)) - 1);  // torn
  std::ofstream(path(2)) << "notes, not a snapshot";                               // foreign
  std::filesystem::copy_file(path(4), path(3),  // of another session
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(path(5), 0);

  const auto tier = OpenDisk(dir.path());
  EXPECT_THAT(tier->problems(),
              ElementsAre(HasSubstr(path(1) + ": has "), HasSubstr(path(2) + ": snapshot"),
                          HasSubstr(path(3) + ": holds version 2 of session " + TestId(4)),
                          HasSubstr(path(5) + ": snapshot: the 8 bytes that it begins with")));
  EXPECT_EQ(tier->usage().corrupt, 4);
  EXPECT_EQ(tier->usage().sessions, 5);
  ASSERT_EQ(Records(*tier).size(), 5U);
  EXPECT_TRUE(CheckVersion(*tier, TestId(4), 2).ok());
  EXPECT_TRUE(tier->Find(TestId(4))->damage.ok());
  for (int i : {1, 2, 3, 5}) {
    const auto record = tier->Find(TestId(i));
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->version, 2);
    EXPECT_EQ(record->damage.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(record->damage.message()),
                HasSubstr("session " + TestId(i) + ", stored version 2: "));
    // The header of the first is whole; what the last was a mark in knows it as well.
    EXPECT_EQ(record->owner_lost, i == 2 || i == 3);
    EXPECT_EQ(tier->Get(TestId(i), 2).status(), record->damage);
    EXPECT_TRUE(std::filesystem::exists(path(i) + ".corrupt"));
    EXPECT_FALSE(std::filesystem::exists(path(i)));
  }
  // What is left of the session is kept.
  EXPECT_TRUE(CheckVersion(*tier, TestId(5), 1).ok());
  ASSERT_EQ(tier->Find(TestId(5))->marks.size(), 1U);
  EXPECT_EQ(tier->Find(TestId(5))->marks[0].name, "mark 1");
}

// A version that was stored as the session's own and that later ones name as a mark stays as it
// was, so once the newest is damaged only its own record is left.
TEST(DiskTierTest, DoesNotGoBackToAnOlderVersionByItself) {
  const TempDir dir;
  const std::string id = TestId(1), newest = dir.path() + "/" + id + "/v6.snap";
  int64_t bytes = 0;
  {
    const auto tier = OpenDisk(dir.path());
    ASSERT_TRUE(PutNewest(*tier, TestRecord(id, 3)).ok());
    ASSERT_TRUE(PutNewest(*tier, TestRecord(id, 6, {3})).ok());
    bytes = tier->usage().bytes;
  }
  std::fstream(newest, std::ios::in | std::ios::out | std::ios::binary).seekp(40).put('?');
  for (int start = 0; start < 2; ++start) {
    const auto tier = OpenDisk(dir.path());
    const auto record = tier->Find(id);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->version, 6);
    EXPECT_FALSE(record->owner_lost);
    EXPECT_EQ(record->damage.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(record->damage.message()), HasSubstr("the header is damaged"));
    EXPECT_TRUE(CheckVersion(*tier, id, 3).ok());
    ASSERT_EQ(record->marks.size(), 1U);
    EXPECT_EQ(record->marks[0].name, "version 3");
    EXPECT_EQ(record->marks[0].version, 3);
    EXPECT_EQ(tier->usage().bytes, bytes);
  }
  {
    // What was gone back to is the session's next version.
    const auto tier = OpenDisk(dir.path());
    ASSERT_TRUE(PutNewest(*tier, TestRecord(id, 7, {3})).ok());
    EXPECT_TRUE(tier->Find(id)->damage.ok());
  }
  const auto tier = OpenDisk(dir.path());
  EXPECT_EQ(tier->Find(id)->version, 7);
  EXPECT_TRUE(tier->Find(id)->damage.ok());
  EXPECT_TRUE(CheckVersion(*tier, id, 3).ok());
  EXPECT_TRUE(std::filesystem::exists(newest + ".corrupt"));
  ASSERT_TRUE(tier->Delete(id).ok());
  EXPECT_EQ(tier->usage().bytes, 0);
  EXPECT_THAT(DiskSessions(dir.path()), IsEmpty());
}

TEST(DiskTierTest, CorruptFilesStayKnown) {
  const TempDir dir;
  {
    const auto tier = OpenDisk(dir.path());
    ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 2)).ok());
  }
  std::filesystem::resize_file(dir.path() + "/" + TestId(1) + "/v2.snap", 100);
  for (int start = 0; start < 2; ++start) {
    const auto tier = OpenDisk(dir.path());
    EXPECT_EQ(tier->usage().corrupt, 1);
    EXPECT_EQ(tier->usage().bytes, 100);
    EXPECT_EQ(tier->Find(TestId(1))->damage.code(), absl::StatusCode::kDataLoss);
  }
  const auto tier = OpenDisk(dir.path());
  EXPECT_TRUE(tier->Delete(TestId(1)).ok());
  EXPECT_EQ(tier->usage().bytes, 0);
  EXPECT_EQ(tier->usage().corrupt, 1) << "a count of what was found never falls";
  EXPECT_THAT(DiskSessions(dir.path()), IsEmpty());
}

// After a downgrade: the file is not damaged, and a later server shall find it.
TEST(DiskTierTest, LeavesALaterFormatAlone) {
  const TempDir dir;
  const std::string path = dir.path() + "/" + TestId(1) + "/v2.snap";
  {
    const auto tier = OpenDisk(dir.path());
    ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(1), 2)).ok());
  }
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(8).put(9);
  const auto tier = OpenDisk(dir.path());
  EXPECT_THAT(tier->problems(), ElementsAre(HasSubstr("has format version 9")));
  EXPECT_EQ(tier->Find(TestId(1))->damage.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(DiskTierTest, ASessionThatCannotBeListedLeavesTheOthersBe) {
  const TempDir dir;
  {
    const auto tier = OpenDisk(dir.path());
    ASSERT_TRUE(PutNewest(*tier, TestRecord(TestId(2), 4)).ok());
  }
  const std::string file = TestId(1), loop = TestId(3);
  dir.Write(file, "x");
  std::filesystem::create_symlink(loop, dir.path() + "/" + loop);
  const auto opened = DiskTier::Open(dir.path(), 0);
  ASSERT_TRUE(opened.ok()) << opened.status();
  DiskTier& tier = **opened;
  EXPECT_THAT(
      tier.problems(),
      ElementsAre(HasSubstr("cannot list " + dir.path() + "/" + file + ": Not a directory"),
                  HasSubstr("cannot list " + dir.path() + "/" + loop + ": it is a symbolic link")));
  EXPECT_TRUE(CheckVersion(tier, TestId(2), 4).ok());
  EXPECT_EQ(tier.usage().corrupt, 2);
  ASSERT_EQ(Records(tier).size(), 3U);
  for (const std::string& id : {file, loop}) {
    const auto record = tier.Find(id);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_TRUE(record->owner_lost);
    EXPECT_EQ(record->damage.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(record->damage.message()),
                HasSubstr("session " + id + ": cannot list"));
    EXPECT_THAT(std::string(record->damage.message()), Not(HasSubstr(dir.path())));
    EXPECT_EQ(tier.Get(id, record->version).status(), record->damage);
    EXPECT_TRUE(tier.Delete(id).ok());
    EXPECT_TRUE(absl::IsNotFound(tier.Find(id).status()));
  }
}

TEST(DiskTierTest, ForeignNamesAreNotTouched) {
  const TempDir dir;
  {
    (void)OpenDisk(dir.path());
  }
  dir.Write("README", "x");
  std::filesystem::create_directories(dir.path() + "/lost+found");
  std::filesystem::create_directories(dir.path() + "/" + TestId(1));
  dir.Write(TestId(1) + "/notes", "x");
  dir.Write(TestId(1) + "/v01.snap", "x");
  const auto tier = OpenDisk(dir.path());
  EXPECT_THAT(tier->problems(), IsEmpty());
  EXPECT_THAT(DiskSessions(dir.path()),
              ElementsAre("README", TestId(1) + "/notes", TestId(1) + "/v01.snap"));
  EXPECT_TRUE(std::filesystem::exists(dir.path() + "/lost+found"));
}

TEST(DiskTierTest, ThreadsWriteDifferentAndSameSessions) {
  const TempDir dir;
  const auto tier = OpenDisk(dir.path());
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int v = 1; v <= 30; ++v) {
        EXPECT_TRUE(PutNewest(*tier, TestRecord(TestId(10 + t), v)).ok());
        const absl::Status shared = PutNewest(*tier, TestRecord(TestId(1), v));
        EXPECT_TRUE(shared.ok() || absl::IsAborted(shared)) << shared;
        const absl::Status read = CheckVersion(*tier, TestId(1), v);
        EXPECT_TRUE(read.ok() || absl::IsNotFound(read)) << read;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tier->usage().sessions, 5);
  for (int t = 0; t < 4; ++t) EXPECT_TRUE(CheckVersion(*tier, TestId(10 + t), 30).ok());
  EXPECT_TRUE(CheckVersion(*tier, TestId(1), 30).ok());
  EXPECT_EQ(DiskSessions(dir.path()).size(), 5U);
}

}  // namespace
}  // namespace tvq
