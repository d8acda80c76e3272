// What two servers do with the sessions of one durable tier.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "server/sessions/durable/redis/tier_redis.h"
#include "tests/server/sessions/redis_process.h"
#include "tests/server/sessions/two_servers.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

class SharedRedis : public Shared {
 public:
  std::unique_ptr<DurableTier> Open() override {
    constexpr absl::Duration kPatient = absl::Seconds(60);  // the machine may be busy
    return OpenRedisTier(redis_.url(),
                         {.piece_bytes = 1000, .timeouts = {kPatient, kPatient, kPatient}})
        .value();
  }
  void LoseAll() override { redis_.Cli("FLUSHALL"); }

 private:
  RedisProcess redis_;
};

template <typename Storage>
std::unique_ptr<Shared> New() {
  return std::make_unique<Storage>();
}

class SharedTierTest : public ::testing::TestWithParam<std::unique_ptr<Shared> (*)()> {
 protected:
  std::unique_ptr<Shared> storage_ = GetParam()();
  Servers s{storage_.get()};
  size_t losses_before_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Memory, SharedTierTest, ::testing::Values(&New<SharedMemory>));
INSTANTIATE_TEST_SUITE_P(Redis, SharedTierTest, ::testing::Values(&New<SharedRedis>));

TEST_P(SharedTierTest, SessionsOfTheOtherServerCountToo) {
  s.a.options.max_sessions = 4;
  s.Restart(s.a);
  s.a.Create();
  for (int i = 0; i < 3; ++i) s.b.Create();
  // Of those that the other made since its last own, it hears with the next.
  int more = 0;
  absl::Status full;
  while (full.ok()) {
    full = s.a.store->Create("", {}).status();
    more += full.ok() ? 1 : 0;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_LE(more, 1);
}

TEST_P(SharedTierTest, HandsASessionFromServerToServer) {
  const SessionCall call{.id = s.a.Create(), .durability = Durability::kDisk};
  std::string text;
  for (int turn = 0; turn < 6; ++turn) {
    StoreHarness& h = turn % 2 == 0 ? s.a : s.b;
    text += static_cast<char>('a' + turn);
    const auto view = h.Append(call, text.substr(text.size() - 1));
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_EQ(view->record.version, turn + 2);
    h.ExpectHolds(call, text);
  }
  EXPECT_EQ(s.b.store->Get("", call.id)->record.position, 6);
}

// The next call may come to another server, so that it has to be there.
TEST_P(SharedTierTest, StoresWhatIsMadeUnlessAskedNotTo) {
  const SessionCall call{.id = s.a.Create()};
  ASSERT_TRUE(s.b.Append(call, "text").ok());
  const auto forks = s.b.store->Fork(call, {.count = 2});
  ASSERT_TRUE(forks.ok()) << forks.status();
  for (const SessionView& fork : *forks) s.a.ExpectHolds({.id = fork.record.id}, "text");

  const auto stream = s.b.store->Export(call, {});
  ASSERT_TRUE(stream.ok()) << stream.status();
  auto upload = s.b.store->NewUpload();
  while (true) {
    const auto piece = (*stream)->Next(1 << 20);
    ASSERT_TRUE(piece.ok()) << piece.status();
    if (piece->empty()) break;
    ASSERT_TRUE(upload->Add(*piece).ok());
  }
  const auto imported = s.b.store->Import("", {}, std::move(upload));
  ASSERT_TRUE(imported.ok()) << imported.status();
  s.a.ExpectHolds({.id = imported->record.id}, "text");

  const std::string alone = s.a.Create({.durability = Durability::kMemory});
  EXPECT_TRUE(absl::IsNotFound(s.b.store->Get("", alone).status()));
}

TEST_P(SharedTierTest, DoesNotShowOtherOwnersSessions) {
  const std::string id = s.a.Create({.durability = Durability::kDisk}, "ann");
  EXPECT_TRUE(s.b.store->Get("ann", id).ok());
  EXPECT_EQ(s.b.store->Get("bob", id).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(SharedTierTest, DropsAnUnsavedVersionThatAnotherServerOvertook) {
  const SessionCall call{.id = s.a.Create()};
  ASSERT_TRUE(s.a.Append(call, "shared").ok());
  ASSERT_TRUE(s.a.store->Save(call).ok());
  ASSERT_TRUE(s.a.Append(call, " stale").ok());
  ASSERT_TRUE(s.b.Append({.id = call.id, .durability = Durability::kDisk}, " newer").ok());
  // Both are version 4, so the client has to be told.
  const absl::Status told = s.a.store->Save(call).status();
  EXPECT_EQ(told.code(), absl::StatusCode::kAborted) << told;
  s.a.ExpectHolds(call, "shared newer");
}

TEST_P(SharedTierTest, CannotOverwriteWhatAnotherServerClaimed) {
  const SessionCall call{.id = s.a.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(s.a.Append(call, "x").ok());
  {
    auto lease = s.a.store->Acquire(call);
    auto next = s.a.Compute((*lease)->Start(), " stale");
    ASSERT_TRUE(s.b.Append(call, " newer").ok());
    EXPECT_EQ((*lease)->Commit(*std::move(next), "").status().code(), absl::StatusCode::kAborted);
  }
  s.a.ExpectHolds(call, "x newer");
}

// What one server uses without storing it, others do not end.
TEST_P(SharedTierTest, DoesNotExpireWhatAnotherServerUses) {
  const SessionCall call{.id =
                             s.a.Create({.ttl = absl::Hours(1), .durability = Durability::kDisk})};
  const SessionCall idle{.id =
                             s.a.Create({.ttl = absl::Hours(1), .durability = Durability::kDisk})};
  s.Restart(s.b);
  s.Advance(absl::Minutes(50));
  ASSERT_TRUE(s.a.Append(call, "used").ok());
  s.a.store->sweeper().SaveUses();
  s.Advance(absl::Minutes(20));
  EXPECT_EQ(s.b.store->sweeper().DeleteExpired(), 1) << "the other one";
  EXPECT_EQ(s.b.store->Get("", idle.id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(s.a.store->Get("", idle.id).status().code(), absl::StatusCode::kNotFound);
  s.a.ExpectHolds(call, "used");
  ASSERT_TRUE(s.a.store->Save(call).ok());
  s.Advance(absl::Minutes(59));
  EXPECT_EQ(s.b.store->sweeper().DeleteExpired(), 0);
  s.Advance(absl::Minutes(5));
  EXPECT_EQ(s.b.store->sweeper().DeleteExpired(), 1);
  EXPECT_EQ(s.a.store->Get("", call.id).status().code(), absl::StatusCode::kNotFound);
}

// The owner stores the time of use now and then only.
TEST_P(SharedTierTest, WaitsALittleBeforeItEndsAnothersSession) {
  const SessionCall call{.id =
                             s.a.Create({.ttl = absl::Hours(1), .durability = Durability::kDisk})};
  s.Restart(s.b);
  s.Advance(absl::Hours(1));
  EXPECT_EQ(s.b.store->sweeper().DeleteExpired(), 0);
  EXPECT_TRUE(s.b.store->Get("", call.id).ok());
  s.Advance(absl::Minutes(2));
  EXPECT_EQ(s.b.store->sweeper().DeleteExpired(), 1);
}

TEST_P(SharedTierTest, ACallUnderWayIsAUse) {
  const SessionCall call{.id =
                             s.a.Create({.ttl = absl::Hours(1), .durability = Durability::kDisk})};
  s.Restart(s.b);
  auto lease = s.a.store->Acquire(call);
  ASSERT_TRUE(lease.ok()) << lease.status();
  for (int i = 0; i < 4; ++i) {
    s.Advance(absl::Minutes(30));
    s.a.store->sweeper().SaveUses();
    EXPECT_EQ(s.b.store->sweeper().DeleteExpired(), 0);
  }
  EXPECT_TRUE((*lease)->Commit(*s.a.Compute((*lease)->Start(), "slow"), "").ok());
}

// An owner that is out of touch gives up what others have by now, and says so once.
TEST_P(SharedTierTest, TellsOnceThatAVersionIsLost) {
  enum { kFlush, kUse, kExpiry, kCall };
  for (const int how : {kFlush, kUse, kExpiry, kCall}) {
    const SessionCall call{
        .id = s.a.Create({.ttl = how == kExpiry ? absl::Hours(1) : absl::Hours(100),
                          .durability = Durability::kDisk})};
    ASSERT_TRUE(s.a.Append({.id = call.id, .durability = Durability::kDisk}, "one").ok());
    s.a.clock.Advance(absl::Minutes(30));
    ASSERT_TRUE(s.a.Append(call, " stale").ok());
    // The same number as the version that is lost.
    ASSERT_TRUE(s.b.Append({.id = call.id, .durability = Durability::kDisk}, " newer").ok());
    losses_before_ = s.losses.size();
    if (how == kFlush) {
      EXPECT_EQ(s.a.store->Flush(std::chrono::steady_clock::now() + std::chrono::seconds(60)), 1);
    } else if (how == kUse) {
      s.a.store->sweeper().SaveUses();
    } else if (how == kExpiry) {
      s.a.clock.Advance(absl::Hours(1));
      EXPECT_EQ(s.a.store->sweeper().DeleteExpired(), 0);
      s.a.clock.Advance(-absl::Hours(1));
    }
    EXPECT_TRUE(how == kCall || s.a.store->stats().unsaved == 0);
    EXPECT_EQ(s.a.store->Transcript("", call.id)->tokens.Ids().size(), 9u);
    const absl::Status told = s.a.Append(call, "?").status();
    EXPECT_EQ(told.code(), absl::StatusCode::kAborted) << how << told;
    EXPECT_THAT(Message(told), HasSubstr("version 3, which was not saved, is lost"));
    EXPECT_EQ(s.losses.size(), losses_before_ + 1);
    s.a.ExpectHolds(call, "one newer");
    ASSERT_TRUE(s.a.Append({.id = call.id, .durability = Durability::kDisk}, "!").ok());
    s.a.clock.Advance(-absl::Minutes(30));
  }
  EXPECT_EQ(s.a.store->stats().lost, 4);
  EXPECT_EQ(s.b.store->stats().lost, 0);
}

// Whichever server is asked.
TEST_P(SharedTierTest, ListsWhatOtherServersStoredAndDeleted) {
  using Versions = std::map<std::string, int64_t>;
  const auto listed = [](StoreHarness& h, const std::string& owner) {
    Versions versions;
    const auto page = h.store->List(owner, {}, 0, "");
    EXPECT_TRUE(page.ok()) << page.status();
    for (const SessionView& view : page->sessions) versions[view.record.id] = view.record.version;
    return versions;
  };
  const std::string one = s.a.Create({}, "ann"), two = s.a.Create({}, "ann");
  s.a.Create({}, "bob");
  EXPECT_EQ(listed(s.b, "ann"), (Versions{{one, 1}, {two, 1}}));
  ASSERT_TRUE(s.a.Append({.owner = "ann", .id = one, .durability = Durability::kDisk}, "x").ok());
  ASSERT_TRUE(s.a.store->Delete({.owner = "ann", .id = two}).ok());
  const std::string three = s.b.Create({}, "ann");
  const Versions all{{one, 2}, {three, 1}};
  EXPECT_TRUE(Eventually([&] { return listed(s.b, "ann") == all && listed(s.a, "ann") == all; }));
  // What another server took over and deleted since.
  ASSERT_TRUE(s.b.store->Delete({.owner = "ann", .id = one}).ok());
  EXPECT_TRUE(Eventually([&] { return listed(s.a, "ann") == Versions{{three, 1}}; }));
  // A call has the session meanwhile: it stays as it was for that one.
  const auto lease = s.a.store->Acquire({.owner = "ann", .id = three});
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(listed(s.a, "ann").size(), 1u);
  EXPECT_EQ(s.a.store->stats().lost, 0);
}

TEST_P(SharedTierTest, ListsBesideCallsThatStoreAndDelete) {
  const std::vector<std::string> ids{s.a.Create(), s.a.Create(), s.a.Create()};
  std::atomic<bool> done = false;
  std::vector<std::thread> readers, writers;
  readers.reserve(3);
  writers.reserve(ids.size());
  for (StoreHarness* const h : {&s.a, &s.b, &s.a}) {
    readers.emplace_back([h, &done] {
      while (!done) EXPECT_TRUE(h->store->List("", {}, 0, "").ok());
    });
  }
  for (const std::string& id : ids) {
    writers.emplace_back([this, &id] {
      for (int i = 0; i < 10; ++i) {
        const auto view = s.a.Append({.id = id, .durability = Durability::kDisk}, "x");
        EXPECT_TRUE(view.ok()) << view.status();
        const std::string brief = s.a.Create();
        EXPECT_TRUE(s.a.store->Delete({.id = brief}).ok());
      }
    });
  }
  for (std::thread& thread : writers) thread.join();
  done = true;
  for (std::thread& thread : readers) thread.join();
  EXPECT_EQ(s.a.store->List("", {}, 0, "")->sessions.size(), 3u) << "what was deleted stays so";
  for (const std::string& id : ids) s.a.ExpectHolds({.id = id}, "xxxxxxxxxx");
  EXPECT_EQ(s.a.store->stats().lost, 0);
}

// A retry goes to whichever server there is.
TEST_P(SharedTierTest, MakesNothingTwiceForARetryElsewhere) {
  const CreateOptions create{.durability = Durability::kDisk, .idempotency_key = "k"};
  const std::string id = s.a.Create(create, "ann");
  EXPECT_EQ(s.b.Create(create, "ann"), id);
  EXPECT_NE(s.b.Create(create, "bob"), id);
  const SessionCall fork{
      .owner = "ann", .id = id, .durability = Durability::kDisk, .idempotency_key = "k"};
  const auto made = s.b.store->Fork(fork, {.count = 3});
  ASSERT_TRUE(made.ok()) << made.status();
  const auto again = s.a.store->Fork(fork, {.count = 3});
  ASSERT_TRUE(again.ok()) << again.status();
  const auto ids = [](const std::vector<SessionView>& views) {
    std::set<std::string> found;
    for (const SessionView& view : views) found.insert(view.record.id);
    return found;
  };
  EXPECT_EQ(again->size(), 3u);
  EXPECT_EQ(ids(*again), ids(*made));
}

TEST_P(SharedTierTest, LooksAtWhatTheOwnerStored) {
  const SessionCall call{.id = s.a.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(s.a.Append(call, "one").ok());
  ASSERT_TRUE(s.b.Append(call, " two").ok());
  EXPECT_EQ(s.a.store->Get("", call.id)->record.version, 3);
  ASSERT_TRUE(s.b.Append(call, " three").ok());
  EXPECT_EQ(s.a.store->Transcript("", call.id)->tokens.Ids().size(), 13u);
  ASSERT_TRUE(s.b.Append(call, " four").ok());
  EXPECT_TRUE(s.a.store->Export({.id = call.id, .expected_version = 5}, {}).ok());
  EXPECT_TRUE(s.b.store->Get("", call.id).ok());
  EXPECT_EQ(s.b.store->Records().front().version, 5) << "nobody took it from its owner";
  ASSERT_TRUE(s.b.store->Delete({.id = call.id}).ok());
  EXPECT_EQ(s.a.store->Get("", call.id).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(SharedTierTest, SavesAgainWhatTheTierLost) {
  const SessionCall call{.id = s.a.Create()};
  ASSERT_TRUE(s.a.Append(call, "text").ok());
  ASSERT_TRUE(s.a.store->Mark(call, "m").ok());
  ASSERT_TRUE(s.a.store->Save(call).ok());
  storage_->LoseAll();
  EXPECT_EQ(s.a.store->Get("", call.id)->record.persisted_version, 0);
  storage_->LoseAll();
  const auto saved = s.a.store->Save(call);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->record.persisted_version, 3);
  s.Restart(s.a);
  s.a.ExpectHolds(call, "text");
  ASSERT_TRUE(s.a.store->Rewind(call, "m").ok());
}

TEST_P(SharedTierTest, NoticesThatTheTierLostItsData) {
  const SessionCall call{.id = s.a.Create()};
  ASSERT_TRUE(s.a.Append(call, "text").ok());
  ASSERT_TRUE(s.a.store->Save(call).ok());
  s.a.store->neighbours().CheckInstance();
  EXPECT_EQ(s.a.store->stats().unsaved, 0);
  storage_->LoseAll();
  s.a.store->neighbours().CheckInstance();
  EXPECT_EQ(s.a.store->stats().unsaved, 1);
  EXPECT_EQ(s.a.store->Flush(std::chrono::steady_clock::now() + std::chrono::seconds(60)), 0);
  s.b.ExpectHolds(call, "text");
}

// The state is in memory, but what belongs to it was there alone.
TEST_P(SharedTierTest, StoresNoHalfOfWhatTheTierLost) {
  for (const bool keep_transcript : {false, true}) {
    const SessionCall call{.id = s.a.Create({.keep_transcript = keep_transcript})};
    ASSERT_TRUE(s.a.Append(call, "text").ok());
    ASSERT_TRUE(s.a.store->Save(call).ok());
    s.Restart(s.a);
    ASSERT_TRUE(s.a.store->Acquire(call).ok());
    while (s.a.store->loader().UnloadParked() > 0) {
    }
    ASSERT_TRUE(s.a.store->Export(call, {}).ok());
    EXPECT_EQ(s.a.store->Get("", call.id)->tier, Tier::kHost);
    s.a.store->neighbours().CheckInstance();
    storage_->LoseAll();
    s.a.store->neighbours().CheckInstance();
    EXPECT_EQ(s.a.store->Flush(std::chrono::steady_clock::now() + std::chrono::seconds(60)), 1);
    EXPECT_TRUE(absl::IsNotFound(s.b.store->Get("", call.id).status()));
    EXPECT_TRUE(absl::IsDataLoss(s.a.store->Save(call).status()));
    ASSERT_TRUE(s.a.store->Delete(call).ok());
  }
}

TEST_P(SharedTierTest, SavesMarksAgainThatTheTierLost) {
  const SessionCall call{.id = s.a.Create({.keep_transcript = false})};
  ASSERT_TRUE(s.a.store->Mark(call, "empty").ok());
  ASSERT_TRUE(s.a.Append(call, "text").ok());
  ASSERT_TRUE(s.a.store->Mark(call, "here").ok());
  ASSERT_TRUE(s.a.Append(call, " more").ok());
  ASSERT_TRUE(s.a.store->Mark(call, "lost").ok());
  ASSERT_TRUE(s.a.Append(call, "!").ok());
  ASSERT_TRUE(s.a.store->Save(call).ok());
  s.Restart(s.a);
  ASSERT_TRUE(s.a.Append(call, "!").ok());
  ASSERT_TRUE(s.a.store->Save(call).ok());
  const auto fork = s.a.store->Fork(call, {.mark = "here"});
  ASSERT_TRUE(fork.ok()) << fork.status();
  s.a.store->neighbours().CheckInstance();
  storage_->LoseAll();
  s.a.store->neighbours().CheckInstance();
  const auto saved = s.a.store->Save(call);
  ASSERT_TRUE(saved.ok()) << saved.status();
  s.Restart(s.a);
  s.a.ExpectHolds(call, "text more!!");
  ASSERT_TRUE(s.a.store->Rewind(call, "here").ok());
  s.a.ExpectHolds(call, "text");
  ASSERT_TRUE(s.a.store->Rewind(call, "empty").ok());
  s.a.ExpectHolds(call, "");
  EXPECT_TRUE(absl::IsDataLoss(s.a.store->Rewind(call, "lost").status()));
}

TEST_P(SharedTierTest, SaysThatAStateIsGone) {
  const SessionCall call{.id = s.a.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(s.a.Append(call, "text").ok());
  s.Restart(s.a);
  ASSERT_TRUE(s.a.store->Acquire(call).ok());  // only the tier has the state
  storage_->LoseAll();
  const auto lease = s.a.store->Acquire(call);
  absl::Status status = lease.status();
  if (lease.ok()) status = s.a.Working((*lease)->Start()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(Message(status), HasSubstr("stored"));
}

TEST_P(SharedTierTest, ClaimsOfManyCallsAreOne) {
  const SessionCall call{.id = s.a.Create(), .durability = Durability::kDisk};
  std::string text;
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> done = 0;
    std::vector<std::thread> calls;
    calls.reserve(4);
    for (int i = 0; i < 4; ++i) {
      calls.emplace_back([&, h = round % 2 == 0 ? &s.a : &s.b] {
        const auto appended = h->Append(call, "x");
        if (appended.ok()) ++done;
        EXPECT_TRUE(appended.ok() || absl::IsAborted(appended.status())) << appended.status();
      });
    }
    for (std::thread& thread : calls) thread.join();
    EXPECT_GT(done, 0);
    text += std::string(static_cast<size_t>(done), 'x');
    (round % 2 == 0 ? s.b : s.a).ExpectHolds(call, text);
  }
}

}  // namespace
}  // namespace tvq
