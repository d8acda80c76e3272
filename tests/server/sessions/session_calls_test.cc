// Making, finding and removing sessions, and what a call commits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

TEST(SessionCallsTest, StartsEmptyAndHoldsWhatIsCommitted) {
  StoreHarness h;
  const auto created = h.store->Create("", {.ttl = absl::Hours(1), .label = "mine"});
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->record.version, 1);
  EXPECT_EQ(created->record.position, 0);
  EXPECT_EQ(created->record.model, "fake");
  EXPECT_EQ(created->record.label, "mine");
  EXPECT_EQ(created->record.ttl, absl::Hours(1));
  EXPECT_EQ(created->record.persisted_version, 0);
  EXPECT_EQ(created->bytes, h.harness.model->StateBytes(1));
  const SessionCall call{.id = created->record.id};
  h.ExpectHolds(call, "");

  h.clock.Advance(absl::Minutes(1));
  const auto first = h.Append(call, "hello ", /*pending=*/true);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->record.version, 2);
  EXPECT_EQ(first->record.position, 6);
  EXPECT_EQ(first->tier, Tier::kDevice);
  EXPECT_EQ(first->record.last_used, h.clock.Now());
  h.ExpectHolds(call, "hello ");

  ASSERT_TRUE(h.Append(call, "world").ok());
  h.ExpectHolds(call, "hello world");
  EXPECT_EQ(h.store->Get("", call.id)->record.version, 3);
}

TEST(SessionCallsTest, LeavesTheSessionAsItWasWithoutCommit) {
  StoreHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "kept").ok());
  {
    auto lease = h.store->Acquire(call);
    ASSERT_TRUE(lease.ok()) << lease.status();
    ASSERT_TRUE(h.Compute((*lease)->Start(), "dropped").ok());
  }
  h.ExpectHolds(call, "kept");
  EXPECT_EQ(h.store->Get("", call.id)->record.version, 2);
}

TEST(SessionCallsTest, GivesPendingTokensAndLogitsBack) {
  StoreHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "abc", /*pending=*/true).ok());
  auto start = (*h.store->Acquire(call))->Start();
  EXPECT_EQ(start->position, 2);
  EXPECT_EQ(start->pending, Ids("c"));
  EXPECT_EQ(start->logits, nullptr);
  ASSERT_TRUE(h.Append(call, "de").ok());
  start = (*h.store->Acquire(call))->Start();
  EXPECT_EQ(start->position, 5);
  EXPECT_TRUE(start->pending.empty());
  ASSERT_NE(start->logits, nullptr);
  EXPECT_EQ(start->logits->size(), static_cast<size_t>(kVocab));
}

TEST(SessionCallsTest, HasOneWriter) {
  StoreHarness h;
  const SessionCall call{.id = h.Create()};
  {
    const auto lease = h.store->Acquire(call);
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ(h.store->stats().leased, 1);
    for (const absl::Status& status :
         {h.store->Acquire(call).status(), h.store->Mark(call, "m").status(),
          h.store->Fork(call, {}).status(), h.store->Delete(call)}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(call.id));
    }
    EXPECT_TRUE(h.store->Get("", call.id).ok());
  }
  EXPECT_TRUE(h.store->Acquire(call).ok());
  EXPECT_EQ(h.store->stats().leased, 0);
}

TEST(SessionCallsTest, ComparesVersions) {
  StoreHarness h;
  const std::string id = h.Create();
  const auto stale = h.Append({.id = id, .expected_version = 7}, "x");
  EXPECT_EQ(stale.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(stale.status().message()), HasSubstr("is 7"));
  EXPECT_THAT(std::string(stale.status().message()), HasSubstr("at version 1"));
  EXPECT_TRUE(h.Append({.id = id, .expected_version = 1}, "x").ok());
}

TEST(SessionCallsTest, HidesOtherOwnersSessions) {
  StoreHarness h;
  const std::string id = h.Create({}, "ann");
  const std::string absent = "00000000000000000000000000000000";
  const auto messages = [&](const std::string& which) {
    const SessionCall call{.owner = "bob", .id = which};
    std::vector<std::string> all;
    for (const absl::Status& status :
         {h.store->Get("bob", which).status(), h.store->Transcript("bob", which).status(),
          h.store->Acquire(call).status(), h.store->Fork(call, {}).status(),
          h.store->Mark(call, "m").status(), h.store->Unmark(call, "m").status(),
          h.store->Rewind(call, "m").status(), h.store->Delete(call)}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
      std::string message(status.message());
      const size_t at = message.find(which);
      if (at != std::string::npos) message.replace(at, which.size(), "ID");
      all.push_back(message);
    }
    return all;
  };
  EXPECT_EQ(messages(id), messages(absent));
  EXPECT_TRUE(h.store->List("bob", {}, 0, "")->sessions.empty());
  EXPECT_TRUE(h.store->Get("ann", id).ok());
}

TEST(SessionCallsTest, RefusesWhatNoSessionCanBe) {
  StoreHarness h;
  EXPECT_EQ(h.store->Create("", {.model = "none"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(h.store->Create("", {.ttl = absl::ZeroDuration()}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(h.store->Create("", {.label = std::string(257, 'x')}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(h.store->stats().created, 0);
}

TEST(SessionCallsTest, LimitsSessionsPerOwner) {
  StoreHarness h({.host_bytes = 1'000'000, .max_sessions_per_owner = 2});
  h.Create({}, "ann");
  const std::string id = h.Create({}, "ann");
  EXPECT_EQ(h.store->Create("ann", {}).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(h.store->Fork({.owner = "ann", .id = id}, {}).status().code(),
            absl::StatusCode::kResourceExhausted);
  h.Create({}, "bob");
  ASSERT_TRUE(h.store->Delete({.owner = "ann", .id = id}).ok());
  h.Create({}, "ann");
}

TEST(SessionCallsTest, LimitsSessionsOfAllOwners) {
  StoreHarness h({.host_bytes = 1'000'000, .max_sessions = 3});
  h.Create();
  const std::string id = h.Create();
  const auto two = h.store->Fork({.id = id}, {.count = 2}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(two)) << two;
  EXPECT_THAT(std::string(two.message()),
              HasSubstr("there are 2, 2 of them this key's; 2 more would exceed the limit of 3 "
                        "(--max-sessions); delete some"));
  ASSERT_TRUE(h.store->Fork({.id = id}, {}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(h.store->Create("", {}).status()));
  ASSERT_TRUE(h.store->Delete({.id = id}).ok());
  h.Create();
}

TEST(SessionCallsTest, AnOwnerLeavesSessionsToOthers) {
  StoreHarness h({.host_bytes = 1'000'000, .max_sessions = 32});
  int of_ann = 0;
  absl::Status full;
  while (full.ok()) {
    full = h.store->Create("ann", {}).status();
    of_ann += full.ok() ? 1 : 0;
  }
  EXPECT_EQ(of_ann, 28);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("its part of the limit of 32"));
  h.Create({}, "bob");
  h.Create({}, "carol");
}

TEST(SessionCallsTest, PromisesExactlyWhatItHasRoomFor) {
  const int64_t place = StoreHarness().store->PlaceBytes(0);
  StoreHarness h({.host_bytes = 4 * place - 1, .keep_transcript = false});
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "state").ok());
  ASSERT_TRUE(h.store->Mark(call, "m").ok());
  ASSERT_TRUE(h.store->Fork(call, {}).ok());
  for (const absl::Status& status :
       {h.store->Create("", {}).status(), h.store->Fork(call, {}).status(),
        h.store->Mark(call, "other").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat(place, " bytes: ", 3 * place, " of ", 4 * place - 1)));
  }
  EXPECT_TRUE(h.store->Mark(call, "m").ok()) << "it replaces a mark, whose place it takes";
  ASSERT_TRUE(h.Append(call, " goes on").ok()) << "a commit needs no further place";
  ASSERT_TRUE(h.store->Unmark(call, "m").ok());
  h.Create();
}

TEST(SessionCallsTest, CountsTranscriptsAndReplies) {
  const int64_t place = StoreHarness().store->PlaceBytes(0);
  StoreHarness h({.host_bytes = 3 * place});
  const SessionCall call{.id = h.Create()};
  const std::string long_text(static_cast<size_t>(place / 4), 'x');
  ASSERT_TRUE(h.Append(call, long_text).ok());
  ASSERT_TRUE(h.Append(call, long_text).ok());
  const absl::Status third = h.Append(call, "more than there is room for").status();
  EXPECT_EQ(third.code(), absl::StatusCode::kResourceExhausted) << third;
  h.ExpectHolds(call, long_text + long_text);
  ASSERT_TRUE(h.store->Delete(call).ok());

  const SessionCall keyed{.id = h.Create({.keep_transcript = false}), .idempotency_key = "k"};
  const auto commit = [&](int64_t bytes) {
    auto lease = h.store->Acquire(keyed);
    return (*lease)
        ->Commit(*h.Compute((*lease)->Start(), "x"), std::string(static_cast<size_t>(bytes), 'r'))
        .status();
  };
  EXPECT_EQ(commit(2 * place).code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(commit(place - 100).ok());
  h.Create();
  EXPECT_EQ(h.store->Create("", {}).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(SessionCallsTest, LimitsBytesPerOwner) {
  const int64_t place = StoreHarness().store->PlaceBytes(0);
  StoreHarness h({.host_bytes = 100 * place, .max_bytes_per_owner = 2 * place + 40});
  const SessionCall call{.owner = "ann", .id = h.Create({}, "ann")};
  ASSERT_TRUE(h.Append(call, "1234567890").ok());
  ASSERT_TRUE(h.store->Mark(call, "m").status().code() == absl::StatusCode::kResourceExhausted);
  h.Create({}, "ann");
  const absl::Status full = h.Append(call, "!").status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("taken by this key's sessions"));
  h.ExpectHolds(call, "1234567890");
  h.Create({}, "bob");
  h.Create({}, "bob");
}

TEST(SessionCallsTest, ListsOldestFirstInPages) {
  StoreHarness h;
  std::vector<std::string> ids;
  for (int i = 0; i < 7; ++i) {
    ids.push_back(h.Create());
    h.clock.Advance(absl::Seconds(1));
  }
  std::vector<std::string> listed;
  std::string token;
  do {
    const auto page = h.store->List("", {}, 3, token);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const SessionView& view : page->sessions) listed.push_back(view.record.id);
    token = page->next_page_token;
    if (listed.size() == 3) {
      ASSERT_TRUE(h.store->Delete({.id = ids[2]}).ok()) << "the one the token names";
    }
  } while (!token.empty());
  EXPECT_EQ(listed, ids);
  EXPECT_EQ(h.store->List("", {.model = "other"}, 3, "")->sessions.size(), 0u);
  EXPECT_EQ(h.store->List("", {}, 3, "nonsense").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SessionCallsTest, ListsWhatLiesBehindManyOthers) {
  StoreHarness h({.host_bytes = 100'000'000});
  const std::string parent = h.Create();
  for (int i = 0; i < 2500; ++i) h.Create();
  const auto forks = h.store->Fork({.id = parent}, {.count = 3});
  ASSERT_TRUE(forks.ok()) << forks.status();
  const auto page = h.store->List("", {.parent_id = parent}, 2, "");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->sessions.size(), 2);
  const auto rest = h.store->List("", {.parent_id = parent}, 2, page->next_page_token);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(rest->sessions.size(), 1);
  EXPECT_EQ(rest->next_page_token, "");
}

TEST(SessionCallsTest, AnswersARetryWithTheFirstOutcome) {
  StoreHarness h;
  const std::string id = h.Create({.idempotency_key = "c"});
  EXPECT_EQ(h.Create({.idempotency_key = "c"}), id);
  EXPECT_NE(h.Create({.idempotency_key = "c"}, "ann"), id);

  const SessionCall call{.id = id, .expected_version = 1, .idempotency_key = "k"};
  {
    auto lease = h.store->Acquire(call);
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_FALSE((*lease)->replay().has_value());
    ASSERT_TRUE((*lease)->Commit(*h.Compute((*lease)->Start(), "once"), "the reply").ok());
  }
  {
    const auto retry = h.store->Acquire(call);
    ASSERT_TRUE(retry.ok()) << retry.status();
    ASSERT_TRUE((*retry)->replay().has_value());
    EXPECT_EQ(*(*retry)->replay(), "the reply");
    EXPECT_TRUE(h.Append({.id = id}, " more").ok()) << "a replay holds nothing up";
  }
  h.ExpectHolds({.id = id}, "once more");

  const auto marked = h.store->Mark({.id = id, .idempotency_key = "l"}, "m");
  ASSERT_TRUE(marked.ok()) << marked.status();
  ASSERT_TRUE(h.Append({.id = id}, "!").ok());
  const auto again = h.store->Mark({.id = id, .idempotency_key = "l"}, "m");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->record.version, marked->record.version);
  EXPECT_EQ(again->record.position, marked->record.position);
}

TEST(SessionCallsTest, RefusesTheKeyOfACallThatAskedSomethingElse) {
  StoreHarness h;
  const std::string id = h.Create({.label = "a", .idempotency_key = "the key", .request_hash = 1});
  const SessionCall call{.id = id, .idempotency_key = "the key", .request_hash = 1};
  {
    auto lease = h.store->Acquire(call);
    ASSERT_TRUE((*lease)->Commit(*h.Compute((*lease)->Start(), "once"), "the reply").ok());
  }
  ASSERT_TRUE(h.store->Fork(call, {.count = 2}).ok());
  SessionCall other = call;
  other.request_hash = 2;
  for (const absl::Status& status :
       {h.store->Create("", {.idempotency_key = "the key", .request_hash = 2}).status(),
        h.store->Acquire(other).status(), h.store->Fork(other, {}).status(),
        h.store->Mark(call, "m").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("idempotency_key: \"the key\""));
  }
  EXPECT_EQ(h.store->stats().created, 3);
  EXPECT_EQ(h.store->Get("", id)->record.version, 2);
  EXPECT_TRUE(h.store->Delete(other).ok()) << "once or twice, it is gone";
}

TEST(SessionCallsTest, KeepsEveryReplyOfACallWithAKey) {
  StoreHarness h({.host_bytes = 2 * int64_t{kMaxReplyBytes}});
  SessionCall call{.id = h.Create(), .idempotency_key = "k"};
  const auto commit = [&](size_t bytes) {
    auto lease = h.store->Acquire(call);
    return (*lease)
        ->Commit(*h.Compute((*lease)->Start(), "once"), std::string(bytes, 'x'))
        .status();
  };
  EXPECT_EQ(commit(kMaxReplyBytes + 1).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(h.store->Get("", call.id)->record.version, 1);
  ASSERT_TRUE(commit(kMaxReplyBytes).ok());
  EXPECT_EQ((*h.store->Acquire(call))->replay()->size(), kMaxReplyBytes);
}

TEST(SessionCallsTest, KeepsTheTranscriptOnlyIfWanted) {
  StoreHarness h;
  const SessionCall call{.id = h.Create({.keep_transcript = false})};
  ASSERT_TRUE(h.Append(call, "secret").ok());
  h.ExpectHolds(call, "secret");
}

TEST(SessionCallsTest, FreesStatesWithTheirSessions) {
  StoreHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "a").ok());
  ASSERT_TRUE(h.Append(call, "b").ok());
  EXPECT_EQ(h.harness.model->live_states, 1) << "the earlier version is let go";
  EXPECT_EQ(h.harness.engine->budget().used(), 1000);
  ASSERT_TRUE(h.store->Delete(call).ok());
  EXPECT_EQ(h.store->Get("", call.id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(h.harness.model->live_states, 0);
  EXPECT_EQ(h.harness.engine->budget().used(), 0);
}

// Marks have long names, and an answer must stay below what a client takes.
TEST(SessionCallsTest, EndsAPageOfLargeSessionsEarly) {
  StoreHarness h({.host_bytes = 1'000'000'000});
  constexpr int kSessions = 50, kMarks = 200;
  for (int i = 0; i < kSessions; ++i) {
    const SessionCall call{.id = h.Create()};
    for (int m = 0; m < kMarks; ++m) {
      ASSERT_TRUE(h.store->Mark(call, absl::StrCat(std::string(120, 'm'), m)).ok());
    }
    h.clock.Advance(absl::Seconds(1));
  }
  int seen = 0, pages = 0;
  for (std::string token;; ++pages) {
    const auto page = h.store->List("", {}, 1000, token);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LT(std::ssize(page->sessions) * kMarks * 120, 2 << 20);
    EXPECT_FALSE(page->sessions.empty());
    seen += static_cast<int>(page->sessions.size());
    token = page->next_page_token;
    if (token.empty()) break;
  }
  EXPECT_EQ(seen, kSessions);
  EXPECT_GE(pages, 1);
}

}  // namespace
}  // namespace tvq
