// Sessions whose files were damaged while the server was down: what is lost is said, what is left
// can be reached, all of it can be deleted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "server/sessions/durable/disk/tier_disk.h"
#include "tests/models/runtime/temp_dir.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

using fixtures::TempDir;
using ::testing::HasSubstr;

class DamagedSessionsTest : public ::testing::Test {
 protected:
  DamagedSessionsTest() { Restart(); }

  void Restart() {
    h_.store.reset();  // which holds the directory
    h_.Start(DiskTier::Open(dir_.path(), 0).value());
  }
  std::string File(const std::string& id, int64_t version) const {
    return absl::StrCat(dir_.path(), "/", id, "/v", version, ".snap");
  }
  void DamageHeader(const std::string& id, int64_t version) {
    std::fstream(File(id, version), std::ios::in | std::ios::out | std::ios::binary)
        .seekp(40)
        .put('?');
  }
  void ExpectLost(const absl::Status& status, const std::string& id, int64_t version) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("session ", id, ", stored version ", version, ": ")));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(dir_.path())));
  }

  // A stored session of one version, 2, that a server has found at its start.
  SessionCall Stored() {
    const SessionCall call{.id = h_.Create()};
    EXPECT_TRUE(h_.Append(call, "text").ok());
    EXPECT_TRUE(h_.store->Save(call).ok());
    Restart();
    return call;
  }

  const TempDir dir_;
  StoreHarness h_;
};

TEST_F(DamagedSessionsTest, SaysWhatIsLostAndGoesBackOnlyWhenAsked) {
  const SessionCall call{.id = h_.Create()};
  ASSERT_TRUE(h_.Append(call, "one").ok());
  ASSERT_TRUE(h_.store->Mark(call, "m").ok());
  ASSERT_TRUE(h_.store->Save(call).ok());
  ASSERT_TRUE(h_.Append(call, " two").ok());
  ASSERT_TRUE(h_.store->Save(call).ok());
  DamageHeader(call.id, 4);
  Restart();

  ExpectLost(h_.store->Acquire(call).status(), call.id, 4);
  ExpectLost(h_.store->Export(call, {}).status(), call.id, 4);
  ExpectLost(h_.store->Transcript("", call.id).status(), call.id, 4);
  ExpectLost(h_.store->Mark(call, "n").status(), call.id, 4);
  ExpectLost(h_.store->Fork(call, {}).status(), call.id, 4);
  const auto seen = h_.store->Get("", call.id);
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(seen->record.version, 4);
  ASSERT_EQ(seen->record.marks.size(), 1U);
  EXPECT_EQ(seen->record.marks[0].name, "m");
  EXPECT_GE(h_.store->stats().corrupt, 1);

  const auto forks = h_.store->Fork(call, {.mark = "m"});
  ASSERT_TRUE(forks.ok()) << forks.status();
  h_.ExpectHolds({.id = forks->front().record.id}, "one");
  const auto back = h_.store->Rewind(call, "m");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->record.version, 5);
  h_.ExpectHolds(call, "one");
  ASSERT_TRUE(h_.Append(call, " more").ok());
  ASSERT_TRUE(h_.store->Save(call).ok());
  Restart();
  h_.ExpectHolds(call, "one more");
  ASSERT_TRUE(h_.store->Rewind(call, "m").ok());
  h_.ExpectHolds(call, "one");
  ASSERT_TRUE(h_.store->Delete(call).ok());
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/" + call.id));
}

// The version that a mark named, where the mark's name is lost with the newest record.
TEST_F(DamagedSessionsTest, NamesWhatIsLeft) {
  const SessionCall call{.id = h_.Create()};
  ASSERT_TRUE(h_.Append(call, "one").ok());
  ASSERT_TRUE(h_.store->Save(call).ok());
  const std::string kept = File(call.id, 2) + ".kept";
  std::filesystem::copy_file(File(call.id, 2), kept);
  ASSERT_TRUE(h_.Append(call, " two").ok());
  ASSERT_TRUE(h_.store->Save(call).ok());
  std::filesystem::rename(kept, File(call.id, 2));
  DamageHeader(call.id, 3);
  Restart();
  ExpectLost(h_.store->Acquire(call).status(), call.id, 3);
  ASSERT_EQ(h_.store->Get("", call.id)->record.marks.size(), 1U);
  ASSERT_TRUE(h_.store->Rewind(call, "version 2").ok());
  h_.ExpectHolds(call, "one");
}

TEST_F(DamagedSessionsTest, WithoutAGoodVersionItIsTheOwnersToDelete) {
  const SessionCall call{.owner = "ann", .id = h_.Create({}, "ann")};
  ASSERT_TRUE(h_.Append(call, "text").ok());
  ASSERT_TRUE(h_.store->Save(call).ok());
  const std::string file = File(call.id, 2);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);  // of the state
  Restart();
  ExpectLost(h_.store->Acquire(call).status(), call.id, 2);
  EXPECT_TRUE(h_.store->Get("ann", call.id).ok());
  EXPECT_EQ(h_.store->Get("bob", call.id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(h_.store->Delete({.owner = "bob", .id = call.id}).code(), absl::StatusCode::kNotFound);
  EXPECT_GT(h_.store->stats().durable.state_bytes, 0);
  ASSERT_TRUE(h_.store->Delete(call).ok());
  EXPECT_EQ(h_.store->stats().durable.state_bytes, 0);
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/" + call.id));
  EXPECT_EQ(h_.store->Get("ann", call.id).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DamagedSessionsTest, WithoutARecordItIsTheirsWhoKnowTheId) {
  const SessionCall call{.owner = "ann", .id = h_.Create({}, "ann")};
  ASSERT_TRUE(h_.Append(call, "text").ok());
  ASSERT_TRUE(h_.store->Save(call).ok());
  DamageHeader(call.id, 2);
  Restart();
  ExpectLost(h_.store->Acquire(call).status(), call.id, 2);
  ExpectLost(h_.store->Get("ann", call.id).status(), call.id, 2);
  ExpectLost(h_.store->Export(call, {}).status(), call.id, 2);
  ExpectLost(h_.store->Fork(call, {}).status(), call.id, 2);
  EXPECT_TRUE(h_.store->List("ann", {}, 10, "")->sessions.empty());
  ASSERT_TRUE(h_.store->Delete(call).ok());
  EXPECT_EQ(h_.store->stats().durable.state_bytes, 0);
  EXPECT_EQ(h_.store->Get("ann", call.id).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DamagedSessionsTest, KeepsToItselfWhereFilesThatEndTooSoonAre) {
  for (const uintmax_t size : {0, 10, 100, 900}) {
    const SessionCall running = Stored(), starting = Stored();
    std::filesystem::resize_file(File(running.id, 2), size);
    ExpectLost(h_.store->Acquire(running).status(), running.id, 2);
    std::filesystem::resize_file(File(starting.id, 2), size);
    Restart();
    ExpectLost(h_.store->Acquire(starting).status(), starting.id, 2);
  }
}

TEST_F(DamagedSessionsTest, KeepsToItselfWhereFilesThatCannotBeOpenedAre) {
  const SessionCall call = Stored();
  const std::string file = File(call.id, 2);
  std::filesystem::rename(file, file + ".moved");
  std::filesystem::create_symlink(file + ".moved", file);  // not followed
  for (int start = 0; start < 2; ++start) {
    const absl::Status status = h_.store->Acquire(call).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("v2.snap: it is a symbolic link, must be a regular file"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(dir_.path())));
    Restart();
  }
}

}  // namespace
}  // namespace tvq
