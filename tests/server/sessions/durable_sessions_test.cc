// Sessions on a durable tier: what is acknowledged as stored is found again, bit by bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "absl/strings/str_cat.h"
#include "server/sessions/snapshot/snapshot.h"
#include "server/sessions/snapshot/state_image.h"
#include "tests/server/sessions/durable_harness.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DurableSessionsTest, NeedsADurableTierToPromiseDurability) {
  StoreHarness h;
  const std::string id = h.Create();
  for (const absl::Status& status :
       {h.store->Save({.id = id}).status(),
        h.store->Acquire({.id = id, .durability = Durability::kDisk}).status(),
        h.store->Create("", {.durability = Durability::kDisk}).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--session-dir"));
  }
  EXPECT_THAT(std::string(h.store->Save({.id = id}).status().message()),
              Not(HasSubstr("durability")));
  EXPECT_EQ(h.store->Flush(std::chrono::steady_clock::now() + std::chrono::seconds(1)), 1);
}

TEST(DurableSessionsTest, FindsWhatWasSavedAfterARestart) {
  DurableHarness h;
  const SessionCall call{.owner = "ann",
                         .id = h.Create({.ttl = absl::Hours(3), .label = "mine"}, "ann")};
  ASSERT_TRUE(h.Append(call, "before", /*pending=*/true).ok());
  const auto saved = h.store->Save(call);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->record.persisted_version, 2);
  ASSERT_TRUE(h.Append(call, " lost").ok());
  EXPECT_EQ(h.store->stats().unsaved, 1);

  h.Restart();
  const auto found = h.store->Get("ann", call.id);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->record.version, 2);
  EXPECT_EQ(found->record.persisted_version, 2);
  EXPECT_EQ(found->record.position, 6);
  EXPECT_EQ(found->record.label, "mine");
  EXPECT_EQ(found->record.ttl, absl::Hours(3));
  EXPECT_EQ(found->tier, Tier::kDurable);
  EXPECT_EQ(h.disk->gets, 0) << "nothing is read before it is used";
  h.ExpectHolds(call, "before");
  ASSERT_TRUE(h.Append(call, " after").ok());
  h.ExpectHolds(call, "before after");
  EXPECT_EQ(h.store->stats().unsaved, 1);
}

TEST(DurableSessionsTest, KeepsEmptySessions) {
  DurableHarness h;
  const auto created =
      h.store->Create("", {.add_special_tokens = false, .durability = Durability::kDisk});
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->record.persisted_version, 1);
  h.Restart();
  const SessionCall call{.id = created->record.id};
  h.ExpectHolds(call, "");
  EXPECT_FALSE(h.store->Get("", call.id)->record.add_special_tokens);
  ASSERT_TRUE(h.Append(call, "now").ok());
  h.ExpectHolds(call, "now");
}

TEST(DurableSessionsTest, CommitsToDiskOrNotAtAll) {
  DurableHarness h;
  const SessionCall call{.id = h.Create(), .durability = Durability::kDisk};
  const auto first = h.Append(call, "one");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->record.persisted_version, 2);

  h.disk->fail = [](std::string_view operation) {
    return operation == "write" ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
  };
  EXPECT_EQ(h.Append(call, " two").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(h.store->stats().save_failures, 1);
  h.ExpectHolds({.id = call.id}, "one");
  EXPECT_EQ(h.store->Create("", {.durability = Durability::kDisk}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(h.store->List("", {}, 0, "")->sessions.size(), 1u);
  ASSERT_TRUE(h.Append({.id = call.id}, " in memory").ok()) << "live sessions go on";
  h.disk->fail = nullptr;
  ASSERT_TRUE(h.Append(call, "!").ok());
  h.Restart();
  h.ExpectHolds({.id = call.id}, "one in memory!");
}

TEST(DurableSessionsTest, KeepsMarksAndTheirStates) {
  DurableHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "a").ok());
  ASSERT_TRUE(h.store->Mark(call, "m").ok());
  ASSERT_TRUE(h.Append(call, "b", /*pending=*/true).ok());
  ASSERT_TRUE(h.store->Mark(call, "n").ok());
  ASSERT_TRUE(h.Append(call, "c").ok());
  ASSERT_TRUE(h.store->Save(call).ok());
  EXPECT_EQ(h.disk->sessions[call.id].versions.size(), 3u);

  h.Restart();
  const auto found = h.store->Get("", call.id);
  ASSERT_EQ(found->record.marks.size(), 2u);
  h.ExpectHolds(call, "abc");
  const auto fork = h.store->Fork(call, {.mark = "m"});
  ASSERT_TRUE(fork.ok()) << fork.status();
  h.ExpectHolds({.id = fork->front().record.id}, "a");
  ASSERT_TRUE(h.store->Rewind(call, "n").ok());
  h.ExpectHolds(call, "ab");
  ASSERT_TRUE(h.store->Unmark(call, "n").ok());
  ASSERT_TRUE(h.store->Unmark(call, "m").ok());
  ASSERT_TRUE(h.store->Save(call).ok());
  EXPECT_EQ(h.disk->sessions[call.id].versions.size(), 1u);
  ASSERT_TRUE(h.store->Delete(call).ok());
  h.ExpectHolds({.id = fork->front().record.id}, "a");
  EXPECT_EQ(h.disk->sessions.size(), 0u);
}

// The size of what is stored grows with the number of marks, not with its square.
TEST(DurableSessionsTest, AMarksSnapshotDoesNotListTheOthers) {
  DurableHarness h({.host_bytes = 10'000'000});
  constexpr int kMarks = 40;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "a").ok());
  const auto name = [](int i) { return absl::StrCat(i, std::string(100, 'n')); };
  for (int i = 0; i < kMarks; ++i) ASSERT_TRUE(h.store->Mark(call, name(i)).ok());
  ASSERT_TRUE(h.Append(call, "b").ok());
  ASSERT_TRUE(h.store->Save(call).ok());
  const auto& versions = h.disk->sessions[call.id].versions;
  ASSERT_EQ(versions.size(), size_t{kMarks + 1});
  const SessionRecord present = h.store->Get("", call.id)->record;
  for (const auto& [version, data] : versions) {
    const auto source = MemoryTier(h.disk).Get(call.id, version);
    const auto head = ReadSnapshotHead(source->get());
    ASSERT_TRUE(head.ok()) << head.status();
    EXPECT_EQ(head->record.version, present.version);
    if (version == present.version) {
      EXPECT_EQ(head->record.marks.size(), size_t{kMarks});
      continue;
    }
    ASSERT_EQ(head->record.marks.size(), 1U);
    EXPECT_EQ(head->record.marks[0].version, version);
    // Of two records of one version older servers take the later.
    EXPECT_LT(head->record.last_used, present.last_used);
  }
  h.Restart();
  EXPECT_EQ(h.store->Get("", call.id)->record.marks.size(), size_t{kMarks});
  ASSERT_TRUE(h.store->Rewind(call, name(7)).ok());
  h.ExpectHolds(call, "a");
}

// Each mark may be stored as the session's own version, with the names of all before it.
TEST(DurableSessionsTest, CountsWhatMarksTakeInStoredRecords) {
  const int64_t place = StoreHarness().store->PlaceBytes(0);
  constexpr int kMarks = 50;
  const std::string longest(100, 'n');
  // Room for the states, their ids, and the names that each of two or three records lists.
  DurableHarness h({.host_bytes = 10'000'000,
                    .max_bytes_per_owner = (kMarks + 1) * (place + 16) + 3 * kMarks * 200});
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "a").ok());
  absl::Status status;
  int marks = 0;
  for (; status.ok() && marks < kMarks; ++marks) {
    status = h.store->Mark(call, absl::StrCat(longest, marks)).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_GT(marks, 5);
  ASSERT_TRUE(h.store->Save(call).ok());
  // After a restart it is not less.
  h.Restart();
  EXPECT_EQ(h.store->Mark(call, longest + "one more").status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(h.store->Unmark(call, absl::StrCat(longest, marks - 2)).ok()) << "the last";
  EXPECT_TRUE(h.store->Mark(call, "short").ok());
}

TEST(DurableSessionsTest, StoresAMarkOfTheEmptyContextOnce) {
  DurableHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.store->Mark(call, "start").ok());
  for (const char* text : {"a", "b", "c"}) {
    ASSERT_TRUE(h.Append(call, text).ok());
    ASSERT_TRUE(h.store->Save(call).ok());
  }
  ASSERT_TRUE(h.Append({.id = call.id, .durability = Durability::kDisk}, "d").ok());
  EXPECT_EQ(h.disk->puts, 5) << "four versions and the mark";
  h.Restart();
  ASSERT_TRUE(h.store->Rewind(call, "start").ok());
  h.ExpectHolds(call, "");
}

TEST(DurableSessionsTest, ForksAndMarksWhatOnlyTheTierHas) {
  DurableHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "root").ok());
  ASSERT_TRUE(h.store->Save(call).ok());
  h.Restart();
  const auto forks = h.store->Fork(call, {.count = 2});
  ASSERT_TRUE(forks.ok()) << forks.status();
  ASSERT_TRUE(h.store->Mark(call, "m").ok());
  // The parent's stored copy goes; the others are not to depend on it.
  ASSERT_TRUE(h.store->Delete(call).ok());
  for (const SessionView& fork : *forks) {
    h.ExpectHolds({.id = fork.record.id}, "root");
    ASSERT_TRUE(h.store->Save({.id = fork.record.id}).ok());
  }
  h.Restart();
  for (const SessionView& fork : *forks) h.ExpectHolds({.id = fork.record.id}, "root");
}

TEST(DurableSessionsTest, SaysThatAStoredSessionIsDamaged) {
  DurableHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "text").ok());
  ASSERT_TRUE(h.store->Save(call).ok());
  std::string& data = h.disk->sessions[call.id].versions[2];
  const std::string whole = data;
  int64_t seen = 0;
  for (size_t at = 0; at < whole.size(); at += 7) {
    data[at] = static_cast<char>(whole[at] ^ 4);
    h.Restart();
    const auto lease = h.store->Acquire(call);
    absl::Status status = lease.status();
    if (lease.ok()) status = h.Working((*lease)->Start()).status();
    // A flipped bit in the format's version makes it a later one.
    if (!absl::IsFailedPrecondition(status)) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << "byte " << at << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(call.id));
      EXPECT_GE(h.store->stats().corrupt, 1);
      ++seen;
    }
    data = whole;
  }
  EXPECT_GT(seen, 20);
  data.resize(200);
  h.Restart();
  EXPECT_EQ(h.store->Transcript("", call.id).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(h.store->Delete(call).ok()) << "what is damaged can be deleted";
}

// Right checksums around what no server has written.
TEST(DurableSessionsTest, SaysThatAKeptReplyIsDamaged) {
  for (const char* const reply : {"mark-0000000000000000 nonsense", "no reply"}) {
    DurableHarness h;
    const std::string id = h.Create();
    ASSERT_TRUE(h.store->Save({.id = id}).ok());
    SnapshotHead head{.record = h.disk->sessions[id].record, .version = 1};
    const ModelInfo& info = h.model->info();
    head.outcomes = {{"k", reply}};
    head.state_bytes = StateImageBytes(info, {});
    BlobWriter writer;
    ASSERT_TRUE(WriteSnapshotHead(head, writer.sink()).ok());
    ASSERT_TRUE(WriteStateImage(info, {}, writer.sink()).ok());
    std::string& data = h.disk->sessions[id].versions[1];
    data.clear();
    ASSERT_TRUE(writer.Finish()
                    ->WriteTo([&](std::span<const std::byte> bytes) {
                      data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                      return absl::OkStatus();
                    })
                    .ok());
    h.Restart();
    const auto retry = h.store->Mark({.id = id, .idempotency_key = "k"}, "m");
    EXPECT_EQ(retry.status().code(), absl::StatusCode::kDataLoss) << retry.status();
    EXPECT_TRUE(h.store->Mark({.id = id, .idempotency_key = "l"}, "m").ok());
  }
}

TEST(DurableSessionsTest, ReadsOneVersionWhileCallsCommit) {
  DurableHarness h;
  const SessionCall call{.id = h.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(h.Append(call, "a").ok());
  // What is being read is replaced, and dropped, before its bytes come.
  bool busy = false;
  const auto replace = [&](std::string_view operation) {
    if (operation != "Get" || busy) return absl::OkStatus();
    busy = true;
    EXPECT_TRUE(h.Append(call, "b").ok());
    return absl::OkStatus();
  };
  h.Restart();
  h.disk->fail = replace;
  const auto transcript = h.store->Transcript("", call.id);
  ASSERT_TRUE(transcript.ok()) << transcript.status();
  EXPECT_EQ(transcript->tokens.Ids(), Ids("ab"));

  busy = false;
  h.Restart();
  const auto stream = h.store->Export({.id = call.id}, {});
  ASSERT_TRUE(stream.ok()) << stream.status();
  std::string snapshot = *(*stream)->Next((*stream)->total_bytes());
  h.disk->fail = nullptr;
  auto upload = h.store->NewUpload();
  ASSERT_TRUE(upload->Add(snapshot).ok());
  const auto copy = h.store->Import("", {}, std::move(upload));
  ASSERT_TRUE(copy.ok()) << copy.status();
  h.ExpectHolds({.id = copy->record.id}, "abb");
}

TEST(DurableSessionsTest, ForgetsWhatACallLoadedAndDidNotChange) {
  DurableHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "text").ok());
  ASSERT_TRUE(h.store->Save(call).ok());
  h.Restart();
  {
    const auto lease = h.store->Acquire(call);
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ(h.store->loader().UnloadParked(), 0) << "somebody works on it";
  }
  EXPECT_EQ(h.store->loader().UnloadParked(), 1);
  EXPECT_EQ(h.store->loader().UnloadParked(), 0);
  h.ExpectHolds(call, "text");
}

TEST(DurableSessionsTest, RefusesACallForAnotherVersionBeforeItLoads) {
  DurableHarness h;
  SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "text").ok());
  ASSERT_TRUE(h.store->Save(call).ok());
  h.Restart();
  call.expected_version = 1;
  EXPECT_EQ(h.store->Acquire(call).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(h.store->loader().UnloadParked(), 0);
  // Whether it is the retry of one that was answered, only the stored session says.
  call.idempotency_key = "k";
  EXPECT_EQ(h.store->Acquire(call).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(h.store->loader().UnloadParked(), 1);
}

TEST(DurableSessionsTest, LeavesSessionsOfOtherModelsStored) {
  DurableHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "text").ok());
  ASSERT_TRUE(h.store->Save(call).ok());
  h.disk->sessions[call.id].record.model = "gone";
  h.Restart();
  const auto status = h.store->Acquire(call).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("gone"));
  EXPECT_EQ(h.store->Get("", call.id)->record.model, "gone");
  EXPECT_EQ(h.store->Flush(std::chrono::steady_clock::now() + std::chrono::seconds(1)), 0);
  EXPECT_EQ(h.disk->sessions.size(), 1u);
}

TEST(DurableSessionsTest, CannotDeleteWhatTheTierDoesNotLetGo) {
  DurableHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "text").ok());
  const SessionCall never{.id = h.Create()};
  ASSERT_TRUE(h.store->Save(call).ok());
  h.disk->fail = [](std::string_view) { return absl::UnavailableError("down"); };
  EXPECT_EQ(h.store->Delete(call).code(), absl::StatusCode::kUnavailable);
  h.ExpectHolds(call, "text");
  EXPECT_TRUE(h.store->Delete(never).ok());
  h.disk->fail = nullptr;
  EXPECT_TRUE(h.store->Delete(call).ok());
}

TEST(DurableSessionsTest, DeletesWhatIsNotUsed) {
  DurableHarness h;
  const SessionCall call{.id = h.Create({.ttl = absl::Hours(1)})};
  const std::string forever = h.Create();
  ASSERT_TRUE(h.Append(call, "text").ok());
  ASSERT_TRUE(h.store->Save(call).ok());
  ASSERT_TRUE(h.store->Save({.id = forever}).ok());
  h.clock.Advance(absl::Minutes(59));
  EXPECT_EQ(h.store->sweeper().DeleteExpired(), 0);
  h.Restart();
  {
    const auto lease = h.store->Acquire(call);
    h.clock.Advance(absl::Hours(2));
    EXPECT_EQ(h.store->sweeper().DeleteExpired(), 0) << "somebody works on it";
    ASSERT_TRUE((*lease)->Commit(*h.Compute((*lease)->Start(), "!"), "").ok());
  }
  EXPECT_EQ(h.store->sweeper().DeleteExpired(), 0) << "used just now";
  h.clock.Advance(-absl::Hours(10));
  EXPECT_EQ(h.store->sweeper().DeleteExpired(), 0) << "a clock that goes back deletes nothing";
  h.clock.Advance(absl::Hours(11));
  EXPECT_EQ(h.store->sweeper().DeleteExpired(), 1);
  EXPECT_EQ(h.store->stats().expired, 1);
  EXPECT_EQ(h.store->Get("", call.id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(h.disk->sessions.size(), 1u);
  EXPECT_TRUE(h.store->Get("", forever).ok());
}

TEST(DurableSessionsTest, OneThatCannotBeDeletedDoesNotKeepTheOthers) {
  DurableHarness h;
  // In the order of their ends.
  for (int i = 1; i <= 5; ++i) {
    ASSERT_TRUE(h.store->Save({.id = h.Create({.ttl = absl::Hours(i)})}).ok());
  }
  std::atomic<int> deletes = 0;
  h.disk->fail = [&](std::string_view operation) {
    return operation == "Delete" && deletes++ == 0 ? absl::UnavailableError("cannot rename")
                                                   : absl::OkStatus();
  };
  h.clock.Advance(absl::Hours(5));
  h.store->sweeper().DeleteExpired();
  EXPECT_GE(deletes, 5) << "one sweep tries all";
}

TEST(DurableSessionsTest, ExpiresAfterARestartToo) {
  DurableHarness h;
  const SessionCall call{.id = h.Create({.ttl = absl::Hours(1)})};
  ASSERT_TRUE(h.store->Save(call).ok());
  h.store.reset();
  h.clock.Advance(absl::Hours(1));
  h.Restart();
  EXPECT_EQ(h.store->sweeper().DeleteExpired(), 1);
}

TEST(DurableSessionsTest, AnEndOfTheServerDoesNotShortenTheLifeOfWhatWasUsed) {
  DurableHarness h;
  const SessionCall call{.id = h.Create({.ttl = absl::Hours(1)})};
  ASSERT_TRUE(h.Append(call, "text").ok());
  ASSERT_TRUE(h.store->Save(call).ok());
  const int64_t puts = h.disk->puts;
  h.clock.Advance(absl::Minutes(50));
  h.ExpectHolds(call, "text");  // a use that stores nothing
  EXPECT_EQ(h.store->Flush(std::chrono::steady_clock::now() + std::chrono::seconds(60)), 0);
  EXPECT_EQ(h.disk->puts, puts) << "no copy of the state for that";
  h.Restart();
  h.clock.Advance(absl::Minutes(50));
  EXPECT_EQ(h.store->sweeper().DeleteExpired(), 0);
  h.clock.Advance(absl::Minutes(10));
  EXPECT_EQ(h.store->sweeper().DeleteExpired(), 1);
}

TEST(DurableSessionsTest, EndsManySessionsBitByBit) {
  DurableHarness h({.host_bytes = 100'000'000});
  for (int i = 0; i < 600; ++i) h.Create({.ttl = absl::Hours(1), .durability = Durability::kDisk});
  h.clock.Advance(absl::Hours(1));
  // The ticker may take its share.
  int64_t most = 0;
  for (int i = 0; i < 10; ++i) most = std::max(most, h.store->sweeper().DeleteExpired());
  EXPECT_LE(most, 256);
  EXPECT_EQ(h.store->stats().expired, 600);
}

TEST(DurableSessionsTest, EndsAllAtOnceThatOnlyMemoryHas) {
  DurableHarness h({.host_bytes = 100'000'000});
  for (int i = 0; i < 1500; ++i) h.Create({.ttl = absl::Hours(1)});
  h.clock.Advance(absl::Hours(1));
  // The ticker may do its share.
  for (int i = 0; i < 3 && h.store->stats().expired < 1500; ++i) {
    h.store->sweeper().DeleteExpired();
    absl::SleepFor(absl::Milliseconds(100));
  }
  EXPECT_EQ(h.store->stats().expired, 1500);
}

TEST(DurableSessionsTest, SaysThatAStoredStateIsGone) {
  DurableHarness h;
  const SessionCall call{.id = h.Create({.durability = Durability::kDisk})};
  ASSERT_TRUE(h.Append({.id = call.id, .durability = Durability::kDisk}, "text").ok());
  h.Restart();
  h.disk->sessions[call.id].versions.clear();
  EXPECT_EQ(h.store->Transcript("", call.id).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(h.store->Acquire(call).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(h.store->Delete(call).ok());
}

TEST(DurableSessionsTest, FlushesWhatIsNotStored) {
  DurableHarness h;
  std::vector<SessionCall> calls;
  for (int i = 0; i < 20; ++i) {
    calls.push_back({.id = h.Create()});
    ASSERT_TRUE(h.Append(calls.back(), std::to_string(i)).ok());
  }
  ASSERT_TRUE(h.store->Save(calls[3]).ok());
  h.disk->fail = [&](std::string_view operation) {
    return operation == "Put" ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  EXPECT_EQ(h.store->Flush(std::chrono::steady_clock::now() + std::chrono::seconds(5)), 19);
  std::atomic<int> failures = 30;
  h.disk->fail = [&](std::string_view) {
    return failures-- > 0 ? absl::UnavailableError("down") : absl::OkStatus();
  };
  EXPECT_EQ(h.store->Flush(std::chrono::steady_clock::now() + std::chrono::seconds(60)), 0)
      << "tries again";
  EXPECT_EQ(h.store->stats().unsaved, 0);
  h.Restart();
  for (int i = 0; i < 20; ++i) h.ExpectHolds(calls[static_cast<size_t>(i)], std::to_string(i));
}

}  // namespace
}  // namespace tvq
