// Sessions whose states grow: what they take, and that nobody computes or uploads what has no room.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/sessions/snapshot/snapshot.h"
#include "tests/server/sessions/byte_vector.h"
#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

constexpr int64_t kByToken = 1000;
constexpr FakeOptions kGrowing{.max_position = 100, .bytes_per_token = kByToken};
const std::string kText(60, 'x');

int64_t EmptyPlace() {
  return StoreHarness({.host_bytes = 1'000'000}, kGrowing).store->PlaceBytes(0);
}

// Of one session of kText, and not quite of another empty one.
SessionOptions RoomForOne() {
  return {.host_bytes = 1'000'000,
          .max_bytes_per_owner = 2 * EmptyPlace() - 1 + 60 * (kByToken + int64_t{sizeof(int32_t)})};
}

bool HasRoomForAnother(StoreHarness& h) {
  h.clock.Advance(absl::Seconds(1));
  const auto made = h.store->Create("", {});
  EXPECT_TRUE(made.ok() || absl::IsResourceExhausted(made.status())) << made.status();
  return made.ok();
}

TEST(GrowingSessionsTest, TakeWhatTheyHaveGrownToAfterARestartToo) {
  StoreHarness h(RoomForOne(), kGrowing);
  const auto disk = std::make_shared<MemoryDisk>();
  h.Start(std::make_unique<MemoryTier>(disk));
  const SessionCall call{.id = h.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(h.Append(call, kText).ok());
  EXPECT_FALSE(HasRoomForAnother(h));
  h.Start(std::make_unique<MemoryTier>(disk));
  EXPECT_FALSE(HasRoomForAnother(h)) << "nobody has used the stored one yet";
  ASSERT_TRUE(h.store->Delete(call).ok());
  EXPECT_TRUE(HasRoomForAnother(h));
}

TEST(GrowingSessionsTest, MarksDoSo) {
  SessionOptions options = RoomForOne();
  options.max_bytes_per_owner += EmptyPlace() + 60 * (kByToken + int64_t{sizeof(int32_t)});
  StoreHarness h(options, kGrowing);
  const auto disk = std::make_shared<MemoryDisk>();
  h.Start(std::make_unique<MemoryTier>(disk));
  const SessionCall call{.id = h.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(h.Append(call, kText).ok());
  ASSERT_TRUE(h.store->Mark(call, "m").ok());
  h.Start(std::make_unique<MemoryTier>(disk));
  EXPECT_FALSE(HasRoomForAnother(h));
  ASSERT_TRUE(h.store->Unmark(call, "m").ok());
  EXPECT_TRUE(HasRoomForAnother(h));
}

// What a commit would lack is refused before anything is computed for it.
TEST(GrowingSessionsTest, RoomIsReservedWithTheLease) {
  StoreHarness h(RoomForOne(), kGrowing);
  const SessionCall call{.id = h.Create()};
  {
    const auto lease = h.store->Acquire(call);
    ASSERT_TRUE(lease.ok()) << lease.status();
    const auto refused = (*lease)->Reserve(70);
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_TRUE(HasRoomForAnother(h)) << "nothing is kept of what is refused";
  }
  const auto page = h.store->List("", {}, 0, "");
  ASSERT_EQ(page->sessions.size(), 2u);  // the oldest first
  ASSERT_TRUE(h.store->Delete({.id = page->sessions.back().record.id}).ok());
  {
    const auto lease = h.store->Acquire(call);
    ASSERT_TRUE((*lease)->Reserve(61).ok());
    EXPECT_FALSE(HasRoomForAnother(h));
    ASSERT_TRUE((*lease)->Commit(*h.Compute((*lease)->Start(), "ten tokens"), "").ok());
  }
  EXPECT_TRUE(HasRoomForAnother(h)) << "what was not needed is given back";
  {
    const auto lease = h.store->Acquire(call);
    EXPECT_TRUE(absl::IsResourceExhausted((*lease)->Reserve(61))) << "the other one is there now";
    ASSERT_TRUE((*lease)->Reserve(30).ok());
  }
  h.ExpectHolds(call, "ten tokens");
}

// The engine says that it is too long for the model; nothing is kept from others meanwhile.
TEST(GrowingSessionsTest, NothingIsReservedBeyondTheContextLength) {
  StoreHarness h(RoomForOne(), kGrowing);
  const auto lease = h.store->Acquire({.id = h.Create()});
  EXPECT_TRUE((*lease)->Reserve(int64_t{1} << 40).ok());
  EXPECT_TRUE(HasRoomForAnother(h));
}

TEST(GrowingSessionsTest, AShorterContextLengthDamagesNothing) {
  StoreHarness h({.host_bytes = 1'000'000}, kGrowing);
  const auto disk = std::make_shared<MemoryDisk>();
  h.Start(std::make_unique<MemoryTier>(disk));
  const SessionCall call{.id = h.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(h.Append(call, kText).ok());

  FakeOptions shorter = kGrowing;
  shorter.max_position = 30;
  StoreHarness then({.host_bytes = 1'000'000}, shorter);
  then.Start(std::make_unique<MemoryTier>(disk));
  EXPECT_EQ(then.store->Transcript("", call.id)->tokens.Ids().size(), kText.size());
  const auto forks = then.store->Fork(call, {});
  EXPECT_TRUE(forks.ok()) << forks.status();
  const auto lease = then.store->Acquire(call);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ((*lease)->Start()->position, 60);
  const auto stream = then.store->Export(call, {});
  ASSERT_TRUE(stream.ok()) << stream.status();
  const auto bytes = (*stream)->Next((*stream)->total_bytes());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(then.store->stats().corrupt, 0);

  auto upload = then.store->NewUpload();
  ASSERT_TRUE(upload->Add({bytes->data(), bytes->size()}).ok());
  const auto imported = then.store->Import("", {}, std::move(upload)).status();
  EXPECT_EQ(imported.code(), absl::StatusCode::kFailedPrecondition) << imported;
  EXPECT_NE(imported.message().find("position 60, the context length of the model here is 30"),
            std::string::npos)
      << imported;
}

// A state that says that it is longer than its bytes.
class Hollow : public State {
 public:
  explicit Hollow(int64_t position) : position_(position) {}
  int64_t position() const override { return position_; }
  int64_t bytes() const override { return 0; }
  absl::Status CopyFrom(const State&) override { return absl::UnimplementedError(""); }
  absl::Status Reset() override { return absl::OkStatus(); }
  std::vector<SectionInfo> Sections() const override {
    return {MakeSection("hash", 8, {1}), MakeSection("growth", 1, {0})};
  }
  absl::Status VisitSectionsFrom(size_t first, const SectionVisitor& visit) const override {
    const std::vector<std::byte> bytes(8);
    const auto sections = Sections();
    absl::Status s;
    if (first == 0) s = visit(sections[0], bytes);
    return s.ok() ? visit(sections[1], {}) : s;
  }
  absl::Status Load(int64_t, const SectionReader&) override { return absl::UnimplementedError(""); }

 private:
  const int64_t position_;
};

TEST(GrowingSessionsTest, NothingIsTakenOnTheWordOfAHeader) {
  StoreHarness h({.host_bytes = 1'000'000}, kGrowing);
  const Hollow state(90);
  const std::vector<float> logits(kVocab);
  const StateContent content{.state = &state, .logits = logits};
  const ModelInfo& info = h.model->info();
  const SnapshotHead head{.record = {.id = std::string(32, 'a'),
                                     .model = "fake",
                                     .version = 1,
                                     .position = 90,
                                     .created = absl::UnixEpoch(),
                                     .last_used = absl::UnixEpoch()},
                          .version = 1,
                          .state_bytes = StateImageBytes(info, content)};
  std::string bytes;
  const ByteSink sink = [&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return absl::OkStatus();
  };
  ASSERT_TRUE(WriteSnapshotHead(head, sink).ok());
  ASSERT_TRUE(WriteStateImage(info, content, sink).ok());
  const auto upload = [&] {
    auto made = h.store->NewUpload();
    EXPECT_TRUE(made->Add({bytes.data(), bytes.size()}).ok());
    return made;
  };
  const int64_t calls = h.harness.model->calls;
  for (const absl::Status& status : {h.store->Import("", {}, upload()).status(),
                                     h.store->StartFrom("fake", upload()).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(status.message().find("\"growth\" of 0 bytes"), std::string::npos) << status;
    EXPECT_NE(status.message().find("\"growth\" of 90000 bytes"), std::string::npos) << status;
  }
  EXPECT_EQ(h.harness.model->calls, calls) << "no state was made for it";
}

TEST(GrowingSessionsTest, StatesThatHaveRoomBecomePrefixes) {
  for (const auto& [by_token, marks] :
       {std::pair(int64_t{3'000'000}, 2U), {int64_t{9'000'000}, 0U}}) {
    EngineOptions engine = SmallOptions();
    engine.state_memory_bytes = 400'000'000;
    StoreHarness h({.host_bytes = 400'000'000, .prefix_bytes = 300'000'000},
                   {.max_position = 100, .bytes_per_token = by_token}, engine);
    Request request{.model = "fake", .prompt = Ids(kText)};
    h.store->UsePrefixes(&request);
    Request again{.model = "fake", .prompt = Ids(kText.substr(0, 40) + std::string(20, 'y'))};
    h.store->UsePrefixes(&again);
    EXPECT_EQ(again.prefix_marks.size(), marks) << by_token;
  }
}

}  // namespace
}  // namespace tvq
