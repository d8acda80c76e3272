#include "tests/server/sessions/durable_tier_contract.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/snapshot/snapshot.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SessionRecord WithMark(SessionRecord record, int64_t version) {
  record.marks = {{"here", version, 10}};
  return record;
}

absl::Status NoState(const ByteSink&) { return absl::OkStatus(); }

absl::StatusOr<std::string> ReadAll(ByteSource* source, int64_t bytes) {
  std::string state(static_cast<size_t>(bytes), '\0');
  std::span<std::byte> rest = std::as_writable_bytes(std::span(state));
  for (size_t part = 1; !rest.empty(); part = part * 3 + 1) {
    const size_t now = std::min(rest.size(), part);
    if (absl::Status status = source->Read(rest.first(now)); !status.ok()) return status;
    rest = rest.subspan(now);
  }
  return state;
}

}  // namespace

void DurableTierTest::Reopen(int64_t budget_bytes) {
  tier_.reset();
  tier_ = storage_->Open(budget_bytes);
}

std::string Id(char digit) { return std::string(32, digit); }

SessionRecord FullRecord(char id_digit, int64_t version) {
  SessionRecord record;
  record.id = Id(id_digit);
  record.owner = "somebody";
  record.model = "novels";
  record.label = std::string("caf\xc3\xa9 \"quoted\"\n\0tail", 19);
  record.parent_id = Id('f');
  record.parent_version = 3;
  record.version = version;
  record.persisted_version = version;
  record.position = 7;
  record.created = absl::FromUnixNanos(1'700'000'000'123'456'789);
  record.last_used = absl::FromUnixNanos(1'700'000'001'000'000'001);
  record.ttl = absl::Hours(36);
  record.has_transcript = true;
  record.creation_key = "key-1";
  return record;
}

std::string TestState(int64_t seed, int64_t bytes) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  std::string state(static_cast<size_t>(bytes), '\0');
  for (char& byte : state) byte = static_cast<char>(random());
  return state;
}

absl::Status PutState(DurableTier* tier, const SessionRecord& record, int64_t version,
                      const std::string& state) {
  return tier->Put(record, version, std::ssize(state), [&](const ByteSink& sink) {
    std::span<const std::byte> rest = std::as_bytes(std::span(state));
    while (!rest.empty()) {
      const size_t now = std::min<size_t>(rest.size(), 1000);
      if (absl::Status status = sink(rest.first(now)); !status.ok()) return status;
      rest = rest.subspan(now);
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::string> GetState(DurableTier* tier, const std::string& id, int64_t version,
                                     int64_t bytes) {
  const absl::StatusOr<std::unique_ptr<ByteSource>> source = tier->Get(id, version);
  if (!source.ok()) return source.status();
  return ReadAll(source->get(), bytes);
}

absl::Status PutSnapshot(DurableTier* tier, const SessionRecord& record, int64_t version,
                         const std::string& state) {
  SnapshotHead head{.record = record, .version = version, .state_bytes = std::ssize(state)};
  int64_t tokens = record.position;
  for (const MarkRecord& mark : record.marks) {
    if (mark.version == version && version != record.version) tokens = mark.position;
  }
  head.transcript.resize(static_cast<size_t>(tokens), 5);
  std::string snapshot;
  absl::Status status = WriteSnapshotHead(head, [&](std::span<const std::byte> bytes) {
    snapshot.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return PutState(tier, record, version, snapshot + state);
}

absl::StatusOr<std::string> GetSnapshot(DurableTier* tier, const std::string& id, int64_t version,
                                        int64_t bytes) {
  const absl::StatusOr<std::unique_ptr<ByteSource>> source = tier->Get(id, version);
  if (!source.ok()) return source.status();
  if (auto head = ReadSnapshotHead(source->get()); !head.ok()) return head.status();
  return ReadAll(source->get(), bytes);
}

std::vector<std::string> Stored(DurableTier* tier) {
  std::vector<std::string> stored;
  const absl::Status status = tier->ForEach([&](const SessionRecord& record) {
    stored.push_back(absl::StrCat(record.id, "@", record.version));
  });
  EXPECT_TRUE(status.ok()) << status;
  std::ranges::sort(stored);
  return stored;
}

TEST_P(DurableTierTest, HasNothingAtFirst) {
  EXPECT_THAT(Stored(tier_.get()), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(tier_->Find(Id('1')).status()));
  EXPECT_TRUE(absl::IsNotFound(tier_->Get(Id('1'), 1).status()));
  EXPECT_TRUE(tier_->Delete(Id('1')).ok());
  EXPECT_EQ(tier_->usage().sessions, 0);
  EXPECT_EQ(tier_->usage().bytes, 0);
}

TEST_P(DurableTierTest, KeepsAStateOverARestart) {
  const std::string state = TestState(1, 123'457);
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 4), 4, state).ok());
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 4, 123'457).value(), state);
    EXPECT_THAT(Stored(tier_.get()), ElementsAre(Id('1') + "@4"));
    EXPECT_EQ(tier_->usage().sessions, 1);
    EXPECT_GE(tier_->usage().bytes, 123'457);
    Reopen();
  }
}

TEST_P(DurableTierTest, KeepsEveryFieldOfTheRecord) {
  const SessionRecord put = WithMark(FullRecord('1', 4), 2);
  ASSERT_TRUE(PutSnapshot(tier_.get(), put, 4, "state").ok());
  Reopen();
  const absl::StatusOr<SessionRecord> found = tier_->Find(Id('1'));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->id, put.id);
  EXPECT_EQ(found->owner, put.owner);
  EXPECT_EQ(found->model, put.model);
  EXPECT_EQ(found->label, put.label);
  EXPECT_EQ(found->parent_id, put.parent_id);
  EXPECT_EQ(found->parent_version, put.parent_version);
  EXPECT_EQ(found->version, put.version);
  EXPECT_EQ(found->position, put.position);
  EXPECT_EQ(found->created, put.created);
  EXPECT_EQ(found->last_used, put.last_used);
  EXPECT_EQ(found->ttl, put.ttl);
  EXPECT_EQ(found->has_transcript, put.has_transcript);
  EXPECT_EQ(found->creation_key, put.creation_key);
  ASSERT_EQ(found->marks.size(), 1u);
  EXPECT_EQ(found->marks[0].name, "here");
  EXPECT_EQ(found->marks[0].version, 2);
  EXPECT_EQ(found->marks[0].position, 10);
}

TEST_P(DurableTierTest, ReadingPastTheEndSaysSo) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, TestState(1, 5000)).ok());
  const absl::Status status = GetSnapshot(tier_.get(), Id('1'), 1, 5001).status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
}

TEST_P(DurableTierTest, ANewerVersionReplacesTheOlder) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, TestState(1, 5000)).ok());
  const int64_t bytes = tier_->usage().bytes;
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 2), 2, TestState(2, 5000)).ok());
  EXPECT_TRUE(absl::IsNotFound(tier_->Get(Id('1'), 1).status()));
  EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 2, 5000).value(), TestState(2, 5000));
  EXPECT_THAT(Stored(tier_.get()), ElementsAre(Id('1') + "@2"));
  EXPECT_EQ(tier_->usage().bytes, bytes);
  EXPECT_EQ(tier_->usage().sessions, 1);
}

TEST_P(DurableTierTest, TheSameVersionMayBeStoredAgain) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, TestState(1, 5000)).ok());
  const int64_t bytes = tier_->usage().bytes;
  SessionRecord relabelled = FullRecord('1', 1);
  relabelled.label = "something else, as";
  relabelled.label.resize(FullRecord('1', 1).label.size(), '.');
  ASSERT_TRUE(PutSnapshot(tier_.get(), relabelled, 1, TestState(2, 5000)).ok());
  EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 1, 5000).value(), TestState(2, 5000));
  EXPECT_EQ(tier_->Find(Id('1'))->label, relabelled.label);
  EXPECT_LT(tier_->usage().bytes, bytes + 1000);
}

TEST_P(DurableTierTest, AnOlderVersionIsRefusedNamingBoth) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 12), 12, "newer").ok());
  const absl::Status status = PutSnapshot(tier_.get(), FullRecord('1', 11), 11, "older");
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("11"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("12"));
  EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 12, 5).value(), "newer");
}

TEST_P(DurableTierTest, StatesOfMarksStayWhileTheRecordNamesThem) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, "first").ok());
  ASSERT_TRUE(PutSnapshot(tier_.get(), WithMark(FullRecord('1', 2), 1), 2, "second").ok());
  ASSERT_TRUE(PutSnapshot(tier_.get(), WithMark(FullRecord('1', 3), 1), 3, "third").ok());
  Reopen();
  EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 1, 5).value(), "first");
  EXPECT_TRUE(absl::IsNotFound(tier_->Get(Id('1'), 2).status()));
  EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 3, 5).value(), "third");
  ASSERT_TRUE(tier_->Claim(Id('1'), kNow).ok());
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 4), 4, "fourth").ok());
  EXPECT_TRUE(absl::IsNotFound(tier_->Get(Id('1'), 1).status()));
  EXPECT_THAT(Stored(tier_.get()), ElementsAre(Id('1') + "@4"));
}

TEST_P(DurableTierTest, AMarkIsStoredAfterTheRecordsOwnState) {
  const SessionRecord record = WithMark(FullRecord('1', 5), 3);
  ASSERT_TRUE(PutSnapshot(tier_.get(), record, 5, "five!").ok());
  ASSERT_TRUE(PutSnapshot(tier_.get(), record, 3, "three").ok());
  Reopen();
  EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 5, 5).value(), "five!");
  EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 3, 5).value(), "three");
  EXPECT_EQ(tier_->Find(Id('1'))->version, 5);
}

// As when a server ends between the two.
TEST_P(DurableTierTest, AMarkStoredBeforeTheRecordsOwnStateChangesNothingYet) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, "first").ok());
  const SessionRecord record = WithMark(FullRecord('1', 5), 3);
  ASSERT_TRUE(PutSnapshot(tier_.get(), record, 3, "three").ok());
  Reopen();
  EXPECT_EQ(tier_->Find(Id('1'))->version, 1);
  EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 1, 5).value(), "first");
  ASSERT_TRUE(tier_->Claim(Id('1'), kNow).ok());
  ASSERT_TRUE(PutSnapshot(tier_.get(), record, 3, "three").ok());
  ASSERT_TRUE(PutSnapshot(tier_.get(), record, 5, "five!").ok());
  EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 3, 5).value(), "three");
  EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 5, 5).value(), "five!");
  EXPECT_TRUE(absl::IsNotFound(tier_->Get(Id('1'), 1).status()));
}

// The stored state becomes a mark's: until the new record's own state comes, it stays what is
// found.
TEST_P(DurableTierTest, AMarkOfTheStoredVersionDoesNotHideIt) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 2), 2, "second").ok());
  const SessionRecord record = WithMark(FullRecord('1', 3), 2);
  ASSERT_TRUE(PutSnapshot(tier_.get(), record, 2, "second").ok());
  EXPECT_EQ(tier_->Find(Id('1'))->version, 2);
  Reopen();
  ASSERT_TRUE(tier_->Find(Id('1')).ok());
  EXPECT_EQ(tier_->Find(Id('1'))->version, 2);
  EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 2, 6).value(), "second");
  ASSERT_TRUE(tier_->Claim(Id('1'), kNow).ok());
  ASSERT_TRUE(PutSnapshot(tier_.get(), record, 2, "second").ok());
  ASSERT_TRUE(PutSnapshot(tier_.get(), record, 3, "third").ok());
  Reopen();
  EXPECT_EQ(tier_->Find(Id('1'))->version, 3);
  EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 2, 6).value(), "second");
}

TEST_P(DurableTierTest, DeleteForgetsAllVersions) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, "first").ok());
  ASSERT_TRUE(PutSnapshot(tier_.get(), WithMark(FullRecord('1', 2), 1), 2, "second").ok());
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('2', 7), 7, "other").ok());
  ASSERT_TRUE(tier_->Delete(Id('1')).ok());
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_TRUE(absl::IsNotFound(tier_->Find(Id('1')).status()));
    EXPECT_TRUE(absl::IsNotFound(tier_->Get(Id('1'), 1).status()));
    EXPECT_TRUE(absl::IsNotFound(tier_->Get(Id('1'), 2).status()));
    EXPECT_THAT(Stored(tier_.get()), ElementsAre(Id('2') + "@7"));
    EXPECT_EQ(tier_->usage().sessions, 1);
    Reopen();
  }
}

TEST_P(DurableTierTest, AFailedPutChangesNothing) {
  const std::string before = TestState(1, 50'000);
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, before).ok());
  const int64_t bytes = tier_->usage().bytes;
  const std::string half = TestState(2, 25'000);
  const absl::Status status = tier_->Put(FullRecord('1', 2), 2, 50'000, [&](const ByteSink& sink) {
    absl::Status sent = sink(std::as_bytes(std::span(half)));
    return sent.ok() ? absl::InternalError("the device is gone") : sent;
  });
  EXPECT_THAT(std::string(status.message()), HasSubstr("the device is gone"));
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(tier_->Find(Id('1'))->version, 1);
    EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 1, 50'000).value(), before);
    EXPECT_EQ(tier_->usage().bytes, bytes);
    Reopen();
  }
}

TEST_P(DurableTierTest, AStateOfAnotherLengthThanAnnouncedIsRefused) {
  if (storage_->asserts_lengths()) GTEST_SKIP() << "this tier fails the test itself";
  EXPECT_FALSE(tier_->Put(FullRecord('1', 1), 1, 10, &NoState).ok());
  const std::string state = TestState(1, 11);
  const absl::Status longer = tier_->Put(FullRecord('1', 1), 1, 10, [&](const ByteSink& sink) {
    return sink(std::as_bytes(std::span(state)));
  });
  EXPECT_FALSE(longer.ok());
  EXPECT_TRUE(absl::IsNotFound(tier_->Find(Id('1')).status()));
}

TEST_P(DurableTierTest, AFullBudgetIsSaidAndDisturbsNothing) {
  Reopen(10'000);
  EXPECT_EQ(tier_->usage().budget, 10'000);
  const std::string state = TestState(1, 6'000);
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, state).ok());
  const absl::Status status = PutSnapshot(tier_.get(), FullRecord('2', 1), 1, TestState(2, 6'000));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(Stored(tier_.get()), ElementsAre(Id('1') + "@1"));
  EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 1, 6'000).value(), state);
  ASSERT_TRUE(tier_->Delete(Id('1')).ok());
  EXPECT_TRUE(PutSnapshot(tier_.get(), FullRecord('2', 1), 1, TestState(2, 6'000)).ok());
}

TEST_P(DurableTierTest, ClaimsHoldWhereNobodyElseClaims) {
  ASSERT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 1), 1, "state").ok());
  EXPECT_TRUE(tier_->Look(Id('1'))->owned);
  Reopen();
  const auto claimed = tier_->Claim(Id('1'), kNow);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->version, 1);
  EXPECT_EQ(claimed->label, FullRecord('1', 1).label);
  EXPECT_TRUE(tier_->Look(Id('1'))->owned);
  EXPECT_EQ(tier_->Look(Id('1'))->version, 1);
  EXPECT_TRUE(PutSnapshot(tier_.get(), FullRecord('1', 2), 2, "state").ok());
  EXPECT_EQ(tier_->Look(Id('1'))->version, 2);
  ASSERT_TRUE(tier_->Delete(Id('1')).ok());
  EXPECT_TRUE(absl::IsNotFound(tier_->Claim(Id('1'), kNow).status()));
  EXPECT_EQ(tier_->Look(Id('1'))->version, 0);
}

TEST_P(DurableTierTest, RemembersTheLastUse) {
  const SessionRecord record = FullRecord('1', 1);
  ASSERT_TRUE(PutSnapshot(tier_.get(), record, 1, "state").ok());
  const int64_t bytes = tier_->usage().bytes;
  const absl::Time later = record.last_used + absl::Hours(5);
  ASSERT_TRUE(tier_->Touch(Id('1'), later).ok());
  ASSERT_TRUE(tier_->Touch(Id('1'), later - absl::Hours(1)).ok()) << "a clock that was set back";
  EXPECT_EQ(tier_->usage().bytes, bytes);
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_LT(absl::AbsDuration(tier_->Find(Id('1'))->last_used - later), absl::Microseconds(1));
    absl::Time visited;
    ASSERT_TRUE(tier_->ForEach([&](const SessionRecord& r) { visited = r.last_used; }).ok());
    EXPECT_EQ(visited, tier_->Find(Id('1'))->last_used);
    EXPECT_EQ(GetSnapshot(tier_.get(), Id('1'), 1, 5).value(), "state");
    Reopen();
  }
  ASSERT_TRUE(tier_->Claim(Id('1'), later).ok());
  SessionRecord next = FullRecord('1', 2);
  next.last_used = later + absl::Hours(1);
  ASSERT_TRUE(PutSnapshot(tier_.get(), next, 2, "state").ok());
  EXPECT_EQ(tier_->Find(Id('1'))->last_used, next.last_used);
  ASSERT_TRUE(tier_->Delete(Id('1')).ok());
  EXPECT_TRUE(absl::IsNotFound(tier_->Touch(Id('1'), later)));
  EXPECT_TRUE(absl::IsNotFound(tier_->Touch(Id('2'), later)));
}

TEST_P(DurableTierTest, DeletesWhatWasNotUsed) {
  const SessionRecord record = FullRecord('1', 1);
  ASSERT_TRUE(PutSnapshot(tier_.get(), record, 1, "state").ok());
  EXPECT_FALSE(tier_->DeleteUnused(Id('1'), record.last_used - absl::Seconds(1)).value());
  ASSERT_TRUE(tier_->Touch(Id('1'), record.last_used + absl::Hours(1)).ok());
  EXPECT_FALSE(tier_->DeleteUnused(Id('1'), record.last_used).value());
  EXPECT_THAT(Stored(tier_.get()), ElementsAre(Id('1') + "@1"));
  EXPECT_TRUE(tier_->DeleteUnused(Id('1'), record.last_used + absl::Hours(1)).value());
  EXPECT_THAT(Stored(tier_.get()), IsEmpty());
  EXPECT_FALSE(tier_->DeleteUnused(Id('1'), absl::InfiniteFuture()).value());
  EXPECT_EQ(tier_->usage().sessions, 0);
}

TEST_P(DurableTierTest, ManySessionsAreAllFound) {
  std::vector<std::string> expected;
  for (int i = 0; i < 300; ++i) {
    SessionRecord record = FullRecord('0', 1 + i % 3);
    record.id = absl::StrCat(absl::Hex(i, absl::kZeroPad8), std::string(24, 'a'));
    ASSERT_TRUE(PutSnapshot(tier_.get(), record, record.version, absl::StrCat("state ", i)).ok());
    expected.push_back(absl::StrCat(record.id, "@", record.version));
  }
  Reopen();
  EXPECT_EQ(Stored(tier_.get()), expected);
}

// Readers see one version or say that it was replaced, and never a mixture of two.
TEST_P(DurableTierTest, ThreadsDoNotDisturbEachOther) {
  constexpr int64_t kBytes = 40'000;
  constexpr int kVersions = 40;
  std::atomic<bool> done = false;
  std::vector<std::thread> writers;
  for (const char digit : {'1', '2', '3'}) {
    writers.emplace_back([&, digit] {
      for (int version = 1; version <= kVersions; ++version) {
        const absl::Status status = PutSnapshot(tier_.get(), FullRecord(digit, version), version,
                                                TestState(digit * 1000 + version, kBytes));
        EXPECT_TRUE(status.ok()) << status;
      }
    });
  }
  std::thread reader([&] {
    while (!done) {
      for (const char digit : {'1', '2', '3'}) {
        const absl::StatusOr<SessionRecord> record = tier_->Find(Id(digit));
        if (absl::IsNotFound(record.status())) continue;
        ASSERT_TRUE(record.ok()) << record.status();
        const absl::StatusOr<std::string> state =
            GetSnapshot(tier_.get(), record->id, record->version, kBytes);
        if (absl::IsNotFound(state.status()) || absl::IsAborted(state.status())) continue;
        ASSERT_TRUE(state.ok()) << state.status();
        EXPECT_EQ(*state, TestState(digit * 1000 + record->version, kBytes));
      }
    }
  });
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
  EXPECT_EQ(tier_->usage().sessions, 3);
}

}  // namespace tvq
