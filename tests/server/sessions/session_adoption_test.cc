// Sessions that another server hands over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/store_harness.h"
#include "tests/server/sessions/transfers.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

TEST(SessionAdoptionTest, AdoptsWhatAnotherServerHandsOver) {
  StoreHarness from;
  const SessionCall call{.owner = "ann", .id = from.Create({.ttl = absl::Hours(9)}, "ann")};
  const SessionCall keyed{.owner = "ann", .id = call.id, .idempotency_key = "k"};
  {
    auto lease = from.store->Acquire(keyed);
    ASSERT_TRUE((*lease)->Commit(*from.Compute((*lease)->Start(), "mine"), "reply").ok());
  }
  const auto before = from.store->Get("ann", call.id)->record;

  StoreHarness to;
  to.clock.Advance(absl::Hours(1));
  const auto adopted = Adopt(to, from, call.id);
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_EQ(to.store->stats().leased, 0);
  EXPECT_EQ(adopted->record.id, call.id);
  EXPECT_EQ(adopted->record.owner, "ann");
  EXPECT_EQ(adopted->record.version, before.version);
  EXPECT_EQ(adopted->record.created, before.created);
  EXPECT_EQ(adopted->record.last_used, before.last_used);
  EXPECT_EQ(adopted->record.ttl, absl::Hours(9));
  to.ExpectHolds(call, "mine");
  EXPECT_EQ((*to.store->Acquire(keyed))->replay(), "reply") << "a retry on the new server";

  EXPECT_EQ(Adopt(to, from, call.id).status().code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(from.Append(call, " more").ok());
  {
    const auto lease = to.store->Acquire(call);
    EXPECT_EQ(Adopt(to, from, call.id).status().code(), absl::StatusCode::kAborted);
  }
  ASSERT_TRUE(Adopt(to, from, call.id).ok());
  to.ExpectHolds(call, "mine more");
}

TEST(SessionAdoptionTest, AdoptsMarksToo) {
  StoreHarness from;
  const SessionCall call{.id = from.Create()};
  ASSERT_TRUE(from.store->Mark(call, "empty").ok());
  ASSERT_TRUE(from.Append(call, "once", /*pending=*/true).ok());
  ASSERT_TRUE(from.store->Mark(call, "once").ok());
  ASSERT_TRUE(from.Append(call, " upon").ok());
  ASSERT_TRUE(from.store->Mark(call, "now").ok());
  const auto before = from.store->Get("", call.id)->record;

  const auto disk = std::make_shared<MemoryDisk>();
  StoreHarness to;
  to.Start(std::make_unique<MemoryTier>(disk));
  const auto missing = Adopt(to, from, call.id, /*without=*/"once").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("once"));
  EXPECT_EQ(to.store->Get("", call.id).status().code(), absl::StatusCode::kNotFound)
      << "all or nothing";

  const auto adopted = Adopt(to, from, call.id);
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  ASSERT_EQ(adopted->record.marks.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(adopted->record.marks[i].name, before.marks[i].name);
    EXPECT_EQ(adopted->record.marks[i].version, before.marks[i].version);
    EXPECT_EQ(adopted->record.marks[i].position, before.marks[i].position);
  }
  ASSERT_TRUE(to.store->Save(call).ok());
  to.Start(std::make_unique<MemoryTier>(disk));
  for (const auto& [mark, text] :
       {std::pair{"once", "once"}, {"now", "once upon"}, {"empty", ""}, {"once", "once"}}) {
    ASSERT_TRUE(to.store->Rewind(call, mark).ok());
    to.ExpectHolds(call, text);
  }
}

TEST(SessionAdoptionTest, CarriesHowTheAnswerEnded) {
  StoreHarness from;
  const SessionCall call{.id = from.Create()};
  ASSERT_TRUE(from.Append(call, "who?").ok());
  ASSERT_TRUE(from.Answer(call, "I").ok());
  ASSERT_TRUE(from.store->Mark(call, "answered").ok());
  ASSERT_TRUE(from.Append(call, ".").ok());
  const AnswerEnd end{"I.", 1, true};

  StoreHarness to;
  const auto imported = Import(to, Export(from, call));
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(to.EndOf({.id = imported->record.id}), end);
  ASSERT_TRUE(Adopt(to, from, call.id).ok());
  EXPECT_EQ(to.EndOf(call), end);
  ASSERT_TRUE(to.store->Rewind(call, "answered").ok());
  EXPECT_EQ(to.EndOf(call), (AnswerEnd{"I", 0}));

  const auto start = to.store->StartFrom("fake", Upload(to, Export(from, call)));
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ((*start)->answer_end, end);
  const auto stream = to.store->ToSnapshot("fake", *to.Compute(*start, "\n"));
  ASSERT_TRUE(stream.ok()) << stream.status();
  const auto again = to.store->StartFrom("fake", Upload(to, Drain(**stream)));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->answer_end, (AnswerEnd{"I.\n", 2, true}));
}

TEST(SessionAdoptionTest, ASessionThatIsHandedOverCounts) {
  StoreHarness from, to({.host_bytes = 1'000'000, .max_sessions = 1});
  const SessionCall call{.id = from.Create()};
  ASSERT_TRUE(from.Append(call, "text").ok());
  const std::string in_the_way = to.Create();
  const auto full = Adopt(to, from, call.id);
  EXPECT_TRUE(absl::IsResourceExhausted(full.status())) << full.status();
  ASSERT_TRUE(to.store->Delete({.id = in_the_way}).ok());
  EXPECT_TRUE(Adopt(to, from, call.id).ok());
  ASSERT_TRUE(from.Append(call, " more").ok());
  EXPECT_TRUE(Adopt(to, from, call.id).ok()) << "it takes the place of the older version";
}

TEST(SessionAdoptionTest, RefusesMarksThatAreNotTheSessions) {
  StoreHarness from;
  const SessionCall call{.id = from.Create()};
  const SessionCall other{.id = from.Create()};
  for (const SessionCall& c : {call, other}) {
    ASSERT_TRUE(from.Append(c, "text").ok());
    ASSERT_TRUE(from.store->Mark(c, "m").ok());
    ASSERT_TRUE(from.Append(c, " more").ok());
  }
  StoreHarness to;
  const auto add = [&](Adoption& adoption, const std::string& id, const std::string& mark,
                       const std::string& as) {
    return adoption.Add(as, Upload(to, Drain(**from.store->ExportPart(id, mark)))).code();
  };
  const auto adoption = to.store->Adopt();
  EXPECT_EQ(add(*adoption, call.id, "m", "m"), absl::StatusCode::kInvalidArgument) << "too soon";
  EXPECT_EQ(add(*adoption, call.id, "", ""), absl::StatusCode::kOk);
  EXPECT_EQ(add(*adoption, other.id, "m", "m"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(add(*adoption, call.id, "m", "n"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(add(*adoption, call.id, "", "m"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(add(*adoption, call.id, "m", "m"), absl::StatusCode::kOk);
  EXPECT_EQ(add(*adoption, call.id, "m", "m"), absl::StatusCode::kInvalidArgument) << "again";
  EXPECT_TRUE(adoption->Finish().ok());
}

TEST(SessionAdoptionTest, DeletesTheOlderCopyOfAnAdoptedSessionWithIt) {
  StoreHarness from;
  const SessionCall call{.id = from.Create()};
  const auto disk = std::make_shared<MemoryDisk>();
  StoreHarness to;
  to.Start(std::make_unique<MemoryTier>(disk));
  ASSERT_TRUE(Adopt(to, from, call.id).ok());
  ASSERT_TRUE(to.store->Save(call).ok());
  ASSERT_TRUE(from.Append(call, "newer").ok());
  ASSERT_TRUE(Adopt(to, from, call.id).ok());
  ASSERT_TRUE(to.store->Delete(call).ok());
  EXPECT_TRUE(disk->sessions.empty());
}

}  // namespace
}  // namespace tvq
