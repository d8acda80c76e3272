// What has the name of a file of the tier and is none. To open it could wait for ever, read for
// ever, or write to a file of somebody else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <ostream>

#include "server/sessions/durable/disk/tier_disk.h"
#include "tests/models/runtime/temp_dir.h"
#include "tests/server/sessions/stored_bytes.h"

namespace tvq {
namespace {

namespace fs = std::filesystem;

using fixtures::CheckVersion;
using fixtures::PutNewest;
using fixtures::TempDir;
using fixtures::TestId;
using fixtures::TestRecord;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct NoFile {
  std::string name;
  std::string what;                       // as errors call it
  bool (*make)(const std::string& path);  // false: not allowed here
};

void PrintTo(const NoFile& no_file, std::ostream* out) { *out << no_file.what; }

const NoFile kNoFiles[] = {
    {"Pipe", "a named pipe", [](const std::string& p) { return mkfifo(p.c_str(), 0600) == 0; }},
    {"Link", "a symbolic link",
     [](const std::string& p) {
       std::ofstream(p + ".else") << "somebody else's";
       fs::create_symlink(p + ".else", p);
       return true;
     }},
    {"Directory", "a directory", [](const std::string& p) { return fs::create_directory(p); }},
    {"Device", "a device",  // /dev/zero
     [](const std::string& p) { return mknod(p.c_str(), S_IFCHR | 0600, makedev(1, 5)) == 0; }},
};

class DiskTierNoFilesTest : public ::testing::TestWithParam<NoFile> {
 protected:
  void SetUp() override {
    const auto tier = Open();
    ASSERT_TRUE(tier.ok()) << tier.status();
    ASSERT_TRUE(PutNewest(**tier, TestRecord(id_, 2)).ok());
    ASSERT_TRUE(PutNewest(**tier, TestRecord(other_, 4)).ok());
  }

  absl::StatusOr<std::unique_ptr<DiskTier>> Open() const { return DiskTier::Open(dir_.path(), 0); }
  std::string Path(const std::string& name) const { return dir_.path() + "/" + id_ + "/" + name; }
  // In place of what is there.
  bool Make(const std::string& path) const {
    fs::remove(path);
    return GetParam().make(path);
  }
  std::string Refusal(const std::string& path) const {
    return path + ": it is " + GetParam().what + ", must be a regular file";
  }

  const TempDir dir_;
  const std::string id_ = TestId(1), other_ = TestId(2);
};

TEST_P(DiskTierNoFilesTest, TheTimeOfUse) {
  if (!Make(Path("used"))) GTEST_SKIP() << "no right to make " << GetParam().what;
  const auto tier = Open();
  ASSERT_TRUE(tier.ok()) << tier.status();
  EXPECT_THAT((*tier)->problems(), ElementsAre(HasSubstr(Refusal(Path("used")))));
  EXPECT_EQ((*tier)->Find(id_)->last_used, TestRecord(id_, 2).last_used);
  EXPECT_TRUE(CheckVersion(**tier, id_, 2).ok());
}

TEST_P(DiskTierNoFilesTest, AVersionAtTheStart) {
  if (!Make(Path("v2.snap"))) GTEST_SKIP() << "no right to make " << GetParam().what;
  const auto tier = Open();
  ASSERT_TRUE(tier.ok()) << tier.status();
  EXPECT_THAT((*tier)->problems(), ElementsAre(HasSubstr(Refusal(Path("v2.snap")))));
  const absl::Status damage = (*tier)->Find(id_)->damage;
  EXPECT_EQ(damage.code(), absl::StatusCode::kUnavailable) << damage;
  EXPECT_THAT(std::string(damage.message()), HasSubstr(Refusal(id_ + "/v2.snap")));
  EXPECT_TRUE(CheckVersion(**tier, other_, 4).ok());
  EXPECT_EQ((*tier)->usage().corrupt, 1);
}

TEST_P(DiskTierNoFilesTest, AVersionOfARunningServer) {
  const auto tier = Open();
  ASSERT_TRUE(tier.ok()) << tier.status();
  if (!Make(Path("v2.snap"))) GTEST_SKIP() << "no right to make " << GetParam().what;
  const absl::Status got = (*tier)->Get(id_, 2).status();
  EXPECT_EQ(got.code(), absl::StatusCode::kUnavailable) << got;
  EXPECT_THAT(std::string(got.message()), HasSubstr(Refusal(id_ + "/v2.snap")));
}

TEST_P(DiskTierNoFilesTest, AFileToBeWritten) {
  const auto tier = Open();
  ASSERT_TRUE(tier.ok()) << tier.status();
  const std::string path = Path("v3.snap.tmp");
  if (!Make(path)) GTEST_SKIP() << "no right to make " << GetParam().what;
  const absl::Status put = PutNewest(**tier, TestRecord(id_, 3));
  if (GetParam().name == "Directory") {
    EXPECT_THAT(std::string(put.message()), HasSubstr(id_ + "/v3.snap.tmp: Is a directory"));
    EXPECT_TRUE(CheckVersion(**tier, id_, 2).ok());
    return;
  }
  ASSERT_TRUE(put.ok()) << put;
  EXPECT_TRUE(CheckVersion(**tier, id_, 3).ok());
  if (GetParam().name != "Link") return;
  std::string text;
  std::getline(std::ifstream(path + ".else"), text);
  EXPECT_EQ(text, "somebody else's");
}

TEST_P(DiskTierNoFilesTest, TheLock) {
  const std::string path = dir_.path() + "/lock";
  if (!Make(path)) GTEST_SKIP() << "no right to make " << GetParam().what;
  const absl::Status opened = Open().status();
  EXPECT_EQ(opened.code(), absl::StatusCode::kUnavailable) << opened;
  EXPECT_THAT(std::string(opened.message()), HasSubstr(Refusal(path)));
}

// Except a directory, each is the place of a folder.
TEST_P(DiskTierNoFilesTest, TheFolderOfASession) {
  if (GetParam().name == "Directory") return;
  const std::string folder = dir_.path() + "/" + TestId(3);
  if (!Make(folder)) GTEST_SKIP() << "no right to make " << GetParam().what;
  const auto tier = Open();
  ASSERT_TRUE(tier.ok()) << tier.status();
  EXPECT_THAT((*tier)->problems(), ElementsAre(HasSubstr("cannot list " + folder)));
  EXPECT_TRUE((*tier)->Delete(TestId(3)).ok());
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder)));
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder + ".deleted")));
}

INSTANTIATE_TEST_SUITE_P(Kinds, DiskTierNoFilesTest, ::testing::ValuesIn(kNoFiles),
                         [](const auto& info) { return info.param.name; });

TEST(DiskTierLinkTest, AFolderThatIsALinkIsNeitherReadNorEmptied) {
  const TempDir dir, elsewhere;
  const std::string folder = dir.path() + "/" + TestId(1);
  {
    const auto tier = DiskTier::Open(dir.path(), 0);
    ASSERT_TRUE(PutNewest(**tier, TestRecord(TestId(1), 2)).ok());
    fs::rename(folder, elsewhere.path() + "/moved");
    fs::create_directory_symlink(elsewhere.path() + "/moved", folder);
    const absl::Status got = (*tier)->Get(TestId(1), 2).status();
    EXPECT_EQ(got.code(), absl::StatusCode::kUnavailable) << got;
    const absl::Status put = PutNewest(**tier, TestRecord(TestId(1), 3));
    EXPECT_EQ(put.code(), absl::StatusCode::kUnavailable) << put;
  }
  const auto tier = DiskTier::Open(dir.path(), 0);
  ASSERT_TRUE(tier.ok()) << tier.status();
  EXPECT_THAT((*tier)->problems(), ElementsAre("cannot list " + folder +
                                               ": it is a symbolic link, must be a directory"));
  EXPECT_TRUE((*tier)->Delete(TestId(1)).ok());
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder)));
  EXPECT_TRUE(fs::exists(elsewhere.path() + "/moved/v2.snap"));
}

TEST(DiskTierLinkTest, TheDirectoryItselfMayBeALink) {
  const TempDir dir, links;
  const std::string link = links.path() + "/sessions";
  fs::create_directory_symlink(dir.path(), link);
  for (int start = 0; start < 2; ++start) {
    const auto tier = DiskTier::Open(link, 0);
    ASSERT_TRUE(tier.ok()) << tier.status();
    EXPECT_THAT((*tier)->problems(), IsEmpty());
    ASSERT_TRUE(PutNewest(**tier, TestRecord(TestId(1), 2 + start)).ok());
    EXPECT_TRUE(CheckVersion(**tier, TestId(1), 2 + start).ok());
  }
}

}  // namespace
}  // namespace tvq
