// Forks, marks and rewinds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/refusal.h"
#include "server/sessions/record/session_limits.h"
#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

TEST(SessionTreeTest, ForksShareNothingThatIsWritten) {
  StoreHarness h;
  const SessionCall parent{.id = h.Create({.ttl = absl::Hours(2)})};
  ASSERT_TRUE(h.Append(parent, "root", /*pending=*/true).ok());
  const auto forks = h.store->Fork(parent, {.label = "branch", .count = 3});
  ASSERT_TRUE(forks.ok()) << forks.status();
  ASSERT_EQ(forks->size(), 3u);
  EXPECT_EQ(h.harness.model->live_states, 1) << "they are at the same state";
  for (const SessionView& fork : *forks) {
    EXPECT_EQ(fork.record.parent_id, parent.id);
    EXPECT_EQ(fork.record.parent_version, 2);
    EXPECT_EQ(fork.record.version, 1);
    EXPECT_EQ(fork.record.ttl, absl::Hours(2));
    EXPECT_EQ(fork.record.label, "branch");
    h.ExpectHolds({.id = fork.record.id}, "root");
  }
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(h.Append({.id = (*forks)[i].record.id}, std::string(i + 1, 'x')).ok());
  }
  ASSERT_TRUE(h.store->Delete(parent).ok());
  for (size_t i = 0; i < 3; ++i) {
    h.ExpectHolds({.id = (*forks)[i].record.id}, "root" + std::string(i + 1, 'x'));
  }
  const auto listed = h.store->List("", {.parent_id = parent.id}, 0, "");
  EXPECT_EQ(listed->sessions.size(), 3u);
}

TEST(SessionTreeTest, ForksAddSpecialTokensAsTheirParentDoes) {
  StoreHarness h;
  for (const std::optional<bool> add : {std::optional<bool>(), std::optional(false)}) {
    const SessionCall parent{.id = h.Create({.add_special_tokens = add})};
    const auto forks = h.store->Fork(parent, {});
    ASSERT_TRUE(forks.ok()) << forks.status();
    EXPECT_EQ(forks->front().record.add_special_tokens, add.value_or(true));
  }
}

TEST(SessionTreeTest, ForksOnceForOneKey) {
  StoreHarness h;
  const SessionCall parent{.id = h.Create(), .idempotency_key = "k"};
  const auto first = h.store->Fork(parent, {.count = 2});
  const auto retry = h.store->Fork(parent, {.count = 2});
  ASSERT_TRUE(first.ok() && retry.ok()) << retry.status();
  const auto ids = [](const std::vector<SessionView>& views) {
    std::set<std::string> ids;
    for (const SessionView& view : views) ids.insert(view.record.id);
    return ids;
  };
  EXPECT_EQ(ids(*first), ids(*retry));
}

// A call of which some forks were stored and could not be removed again.
struct PartlyForked : StoreHarness {
  explicit PartlyForked(bool shared) {
    Start(std::make_unique<MemoryTier>(disk, shared));
    call.id = Create({.durability = Durability::kDisk});
    const auto root = Append({.id = call.id, .durability = Durability::kDisk}, "root");
    EXPECT_TRUE(root.ok()) << root.status();
    call.expected_version = root->record.version;
    disk->fail = [puts = 0](std::string_view operation) mutable {
      const bool fails = operation == "Delete" || (operation == "Put" && ++puts > 2);
      return fails ? absl::UnavailableError("away") : absl::OkStatus();
    };
    EXPECT_EQ(store->Fork(call, {.count = 5}).status().code(), absl::StatusCode::kUnavailable);
    disk->fail = nullptr;
  }

  std::shared_ptr<MemoryDisk> disk = std::make_shared<MemoryDisk>();
  SessionCall call{.durability = Durability::kDisk, .idempotency_key = "k"};
};

TEST(SessionTreeTest, ARetryMakesTheForksThatTheFirstCallDidNot) {
  for (const bool shared : {false, true}) {
    SCOPED_TRACE(shared);
    PartlyForked h(shared);
    if (!shared) h.Start(std::make_unique<MemoryTier>(h.disk));
    ASSERT_TRUE(h.Append({.id = h.call.id}, " that goes on").ok());
    h.clock.Advance(absl::Hours(1));
    const auto forks = h.store->Fork(h.call, {.count = 5});
    ASSERT_TRUE(forks.ok()) << forks.status();
    std::set<std::string> ids;
    for (const SessionView& fork : *forks) {
      ids.insert(fork.record.id);
      EXPECT_EQ(fork.record.parent_id, h.call.id);
      EXPECT_EQ(fork.record.parent_version, h.call.expected_version);
      EXPECT_EQ(fork.record.persisted_version, 1);
    }
    EXPECT_EQ(ids.size(), 5u);
    h.Start(std::make_unique<MemoryTier>(h.disk, shared));
    for (const std::string& id : ids) h.ExpectHolds({.id = id}, "root");
    EXPECT_EQ(h.store->Fork(h.call, {.count = 5})->size(), 5u);
    EXPECT_EQ(h.disk->sessions.size(), 6u);
  }
}

TEST(SessionTreeTest, ARetryMixesNoForksOfDifferentStates) {
  PartlyForked h(/*shared=*/false);
  h.Start(std::make_unique<MemoryTier>(h.disk));
  const auto left = h.store->List("", {.parent_id = h.call.id}, 0, "");
  ASSERT_EQ(left->sessions.size(), 2u);
  for (const SessionView& fork : left->sessions) {
    ASSERT_TRUE(h.Append({.id = fork.record.id}, "other").ok());
  }
  const auto retry = h.store->Fork(h.call, {.count = 5});
  EXPECT_EQ(RefusalOf(retry.status()).reason, Reason::kReplyNotKept) << retry.status();
}

TEST(SessionTreeTest, EveryVersionKnowsHowItsAnswerEnded) {
  const auto disk = std::make_shared<MemoryDisk>();
  StoreHarness h;
  h.Start(std::make_unique<MemoryTier>(disk));
  for (const bool transcript : {true, false}) {
    SCOPED_TRACE(transcript);
    const SessionCall call{.id = h.Create({.keep_transcript = transcript})};
    ASSERT_TRUE(h.store->Mark(call, "empty").ok());
    ASSERT_TRUE(h.Append(call, "who?").ok());
    ASSERT_TRUE(h.store->Mark(call, "asked").ok());
    EXPECT_EQ(h.EndOf(call), std::nullopt);
    ASSERT_TRUE(h.Answer(call, "I").ok());
    ASSERT_TRUE(h.store->Mark(call, "answered").ok());
    ASSERT_TRUE(h.Append(call, ".\n").ok());
    ASSERT_TRUE(h.store->Save(call).ok());

    const std::pair<std::string, std::optional<AnswerEnd>> wanted[] = {
        {"empty", std::nullopt}, {"answered", AnswerEnd{"I", 0}}, {"asked", std::nullopt}};
    for (const bool restarted : {false, true}) {
      SCOPED_TRACE(restarted);
      if (restarted) h.Start(std::make_unique<MemoryTier>(disk));
      const auto fork = h.store->Fork(call, {});
      ASSERT_TRUE(fork.ok()) << fork.status();
      EXPECT_EQ(h.EndOf({.id = fork->front().record.id}), h.EndOf(call));
      EXPECT_EQ(h.EndOf(call), (AnswerEnd{"I.\n", 2, true})) << "what was saved";
      for (const auto& [mark, end] : wanted) {
        const auto from_mark = h.store->Fork(call, {.mark = mark});
        ASSERT_TRUE(from_mark.ok()) << from_mark.status();
        EXPECT_EQ(h.EndOf({.id = from_mark->front().record.id}), end) << mark;
        ASSERT_TRUE(h.store->Rewind(call, mark).ok());
        EXPECT_EQ(h.EndOf(call), end) << mark;
      }
    }
  }
}

TEST(SessionTreeTest, RewindsToMarks) {
  StoreHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.store->Mark(call, "empty").ok());
  ASSERT_TRUE(h.Append(call, "one", /*pending=*/true).ok());
  const auto marked = h.store->Mark(call, "first");
  ASSERT_TRUE(marked.ok()) << marked.status();
  ASSERT_EQ(marked->record.marks.size(), 2u);
  EXPECT_EQ(marked->record.marks[1].name, "first");
  EXPECT_EQ(marked->record.marks[1].position, 3);
  EXPECT_EQ(marked->record.marks[1].version, marked->record.version);
  ASSERT_TRUE(h.Append(call, " two").ok());

  const auto fork = h.store->Fork(call, {.mark = "first"});
  ASSERT_TRUE(fork.ok()) << fork.status();
  h.ExpectHolds({.id = fork->front().record.id}, "one");
  EXPECT_EQ(fork->front().record.parent_version, marked->record.version);

  const int64_t before = h.store->Get("", call.id)->record.version;
  const auto back = h.store->Rewind(call, "first");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->record.version, before + 1);
  EXPECT_EQ(back->record.position, 3);
  h.ExpectHolds(call, "one");
  ASSERT_TRUE(h.Append(call, " other").ok());
  h.ExpectHolds(call, "one other");
  ASSERT_TRUE(h.store->Rewind(call, "first").ok()) << "a mark stays";
  h.ExpectHolds(call, "one");
  ASSERT_TRUE(h.store->Rewind(call, "empty").ok());
  h.ExpectHolds(call, "");
}

TEST(SessionTreeTest, ForgetsMarks) {
  StoreHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "a").ok());
  ASSERT_TRUE(h.store->Mark(call, "m").ok());
  ASSERT_TRUE(h.Append(call, "b").ok());
  EXPECT_EQ(h.harness.model->live_states, 2);
  ASSERT_TRUE(h.store->Unmark(call, "m").ok());
  EXPECT_EQ(h.harness.model->live_states, 1);
  for (const absl::Status& status :
       {h.store->Unmark(call, "m").status(), h.store->Rewind(call, "m").status(),
        h.store->Fork(call, {.mark = "m"}).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  }
}

TEST(SessionTreeTest, AMarkThatCannotBeMovedKeepsItsPlace) {
  const int64_t place = StoreHarness().store->PlaceBytes(0);
  // Five places, and what marks take in records.
  StoreHarness h({.host_bytes = 100 * place, .max_bytes_per_owner = 5 * place + place / 2});
  const auto disk = std::make_shared<MemoryDisk>();
  h.Start(std::make_unique<MemoryTier>(disk));
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.store->Mark(call, "start").ok());
  // With a transcript as large as a state: the present state and the mark take two places each.
  ASSERT_TRUE(h.Append(call, std::string(static_cast<size_t>(place / 4), 'x')).ok());
  ASSERT_TRUE(h.store->Mark(call, "m").ok());
  ASSERT_TRUE(h.store->Rewind(call, "start").ok());
  disk->fail = [](std::string_view) { return absl::ResourceExhaustedError("full"); };
  const auto moved = h.store->Mark({.id = call.id, .durability = Durability::kDisk}, "m");
  EXPECT_EQ(moved.status().code(), absl::StatusCode::kResourceExhausted) << moved.status();
  disk->fail = nullptr;
  h.Create();  // the fifth place
  const absl::Status sixth = h.store->Create("", {}).status();
  EXPECT_EQ(sixth.code(), absl::StatusCode::kResourceExhausted) << sixth;
  ASSERT_TRUE(h.store->Mark(call, "m").ok());
  h.Create();  // where the mark's transcript was
}

// For good, until one is removed: to try again is of no use.
TEST(SessionTreeTest, HasAMostOfMarks) {
  StoreHarness h({.host_bytes = 10'000'000});
  const SessionCall call{.id = h.Create()};
  const auto name = [](size_t i) { return absl::StrCat("m", i); };
  for (size_t i = 0; i < kMaxMarks; ++i) ASSERT_TRUE(h.store->Mark(call, name(i)).ok()) << i;
  const absl::Status refused = h.store->Mark(call, name(kMaxMarks)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has 1000 marks"));
  EXPECT_TRUE(h.store->Mark(call, name(7)).ok()) << "takes the place of one";
  ASSERT_TRUE(h.store->Unmark(call, name(0)).ok());
  EXPECT_TRUE(h.store->Mark(call, name(kMaxMarks)).ok());
}

TEST(SessionTreeTest, RefusesImpossibleCounts) {
  StoreHarness h;
  const SessionCall call{.id = h.Create()};
  for (int32_t count : {0, -1, 129}) {
    EXPECT_EQ(h.store->Fork(call, {.count = count}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(h.store->Mark(call, "").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(h.store->Get("", call.id)->record.version, 1);
}

}  // namespace
}  // namespace tvq
