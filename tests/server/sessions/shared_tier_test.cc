// Two servers with one durable tier.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <thread>

#include "server/sessions/tier_redis.h"
#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/redis_process.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

// What the servers share.
class Shared {
 public:
  virtual ~Shared() = default;
  virtual std::unique_ptr<DurableTier> Open() = 0;
  // As a Redis that keeps nothing on disk and is started again.
  virtual void LoseAll() = 0;
};

class SharedMemory : public Shared {
 public:
  std::unique_ptr<DurableTier> Open() override {
    return std::make_unique<MemoryTier>(disk, /*shared=*/true);
  }
  void LoseAll() override { disk->LoseAll(); }

  std::shared_ptr<MemoryDisk> disk = std::make_shared<MemoryDisk>();
};

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

SessionOptions Options(std::vector<std::string>* losses) {
  return {.host_bytes = 1'000'000,
          .on_loss = [losses](const std::string& message) { losses->push_back(message); }};
}

// Two servers.
struct Servers {
  explicit Servers(Shared* storage) : storage(storage) {
    for (StoreHarness* h : {&a, &b}) Restart(*h);
  }
  void Restart(StoreHarness& h) { h.Start(storage->Open()); }
  // Time passes for both.
  void Advance(absl::Duration by) {
    a.clock.Advance(by);
    b.clock.Advance(by);
  }

  // From `a` to `b`, marks left out.
  void HandOver(const std::string& id) {
    const auto stream = a.store->ExportPart(id, "");
    ASSERT_TRUE(stream.ok()) << stream.status();
    const std::string bytes = *(*stream)->Next((*stream)->total_bytes());
    auto upload = b.store->NewUpload();
    ASSERT_TRUE(upload->Add({bytes.data(), bytes.size()}).ok());
    auto adoption = b.store->Adopt();
    ASSERT_TRUE(adoption->Add("", std::move(upload)).ok());
    const auto taken = adoption->Finish();
    ASSERT_TRUE(taken.ok()) << taken.status();
  }

  Shared* const storage;
  std::vector<std::string> losses;  // that `a` was told of
  StoreHarness a{Options(&losses)};
  StoreHarness b;
};

class SharedTierTest : public ::testing::TestWithParam<std::unique_ptr<Shared> (*)()> {
 protected:
  std::unique_ptr<Shared> storage_ = GetParam()();
  Servers s{storage_.get()};
  size_t losses_before_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Memory, SharedTierTest, ::testing::Values(&New<SharedMemory>));
INSTANTIATE_TEST_SUITE_P(Redis, SharedTierTest, ::testing::Values(&New<SharedRedis>));

// With a tier that fails when told to.
class FailingSharedTierTest : public ::testing::Test {
 protected:
  SharedMemory storage_;
  const std::shared_ptr<MemoryDisk> disk = storage_.disk;
  Servers s{&storage_};
};

std::string Message(const absl::Status& status) { return std::string(status.message()); }

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

TEST_F(FailingSharedTierTest, GoesOnWithoutTheTier) {
  const SessionCall call{.id = s.a.Create()};
  ASSERT_TRUE(s.a.Append(call, "live").ok());
  ASSERT_TRUE(s.a.store->Save(call).ok());
  disk->fail = [](std::string_view) { return absl::UnavailableError("down"); };
  ASSERT_TRUE(s.a.Append(call, " on").ok());
  s.a.ExpectHolds(call, "live on");
  EXPECT_EQ(s.a.store->Save(call).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(s.b.store->Get("", call.id).status().code(), absl::StatusCode::kUnavailable)
      << "it may be there";
  EXPECT_EQ(s.a.store->stats().unsaved, 1);
  disk->fail = nullptr;
  ASSERT_TRUE(s.a.store->Save(call).ok());
  s.b.ExpectHolds(call, "live on");
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
  s.a.store->StoreUses();
  s.Advance(absl::Minutes(20));
  EXPECT_EQ(s.b.store->DeleteExpired(), 1) << "the other one";
  EXPECT_EQ(s.b.store->Get("", idle.id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(s.a.store->Get("", idle.id).status().code(), absl::StatusCode::kNotFound);
  s.a.ExpectHolds(call, "used");
  ASSERT_TRUE(s.a.store->Save(call).ok());
  s.Advance(absl::Minutes(59));
  EXPECT_EQ(s.b.store->DeleteExpired(), 0);
  s.Advance(absl::Minutes(5));
  EXPECT_EQ(s.b.store->DeleteExpired(), 1);
  EXPECT_EQ(s.a.store->Get("", call.id).status().code(), absl::StatusCode::kNotFound);
}

// The owner stores the time of use now and then only.
TEST_P(SharedTierTest, WaitsALittleBeforeItEndsAnothersSession) {
  const SessionCall call{.id =
                             s.a.Create({.ttl = absl::Hours(1), .durability = Durability::kDisk})};
  s.Restart(s.b);
  s.Advance(absl::Hours(1));
  EXPECT_EQ(s.b.store->DeleteExpired(), 0);
  EXPECT_TRUE(s.b.store->Get("", call.id).ok());
  s.Advance(absl::Minutes(2));
  EXPECT_EQ(s.b.store->DeleteExpired(), 1);
}

TEST_P(SharedTierTest, ACallUnderWayIsAUse) {
  const SessionCall call{.id =
                             s.a.Create({.ttl = absl::Hours(1), .durability = Durability::kDisk})};
  s.Restart(s.b);
  auto lease = s.a.store->Acquire(call);
  ASSERT_TRUE(lease.ok()) << lease.status();
  for (int i = 0; i < 4; ++i) {
    s.Advance(absl::Minutes(30));
    s.a.store->StoreUses();
    EXPECT_EQ(s.b.store->DeleteExpired(), 0);
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
      s.a.store->StoreUses();
    } else if (how == kExpiry) {
      s.a.clock.Advance(absl::Hours(1));
      EXPECT_EQ(s.a.store->DeleteExpired(), 0);
      s.a.clock.Advance(-absl::Hours(1));
    }
    EXPECT_TRUE(how == kCall || s.a.store->HeldHere().empty());
    EXPECT_EQ(s.a.store->Transcript("", call.id)->ids.size(), 9u);
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

// As when a server hands a session to one that shares its storage.
TEST_P(SharedTierTest, ASessionHandedOverBelongsToTheOneWhoTookIt) {
  const SessionCall call{.id = s.a.Create({.durability = Durability::kDisk})};
  ASSERT_TRUE(s.a.Append(call, "unsaved").ok());
  s.HandOver(call.id);
  s.a.store->Forget(call.id);
  EXPECT_EQ(s.a.store->Flush(std::chrono::steady_clock::now() + std::chrono::seconds(60)), 0);
  s.b.ExpectHolds(call, "unsaved");
  // And to nobody for ever.
  ASSERT_TRUE(s.b.store->Save(call).ok());
  ASSERT_TRUE(s.a.Append({.id = call.id, .durability = Durability::kDisk}, "!").ok());
  s.b.ExpectHolds(call, "unsaved!");
  ASSERT_TRUE(s.b.store->Delete(call).ok());
  EXPECT_EQ(s.a.store->Get("", call.id).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(SharedTierTest, DeletesWhatWasHandedOverBeforeItWasStored) {
  const SessionCall call{.id = s.a.Create({.durability = Durability::kDisk})};
  ASSERT_TRUE(s.a.Append(call, "unsaved").ok());
  s.HandOver(call.id);
  ASSERT_TRUE(s.b.store->Delete(call).ok());
  s.Restart(s.b);
  EXPECT_EQ(s.b.store->Get("", call.id).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(SharedTierTest, LooksAtWhatTheOwnerStored) {
  const SessionCall call{.id = s.a.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(s.a.Append(call, "one").ok());
  ASSERT_TRUE(s.b.Append(call, " two").ok());
  EXPECT_EQ(s.a.store->Get("", call.id)->record.version, 3);
  ASSERT_TRUE(s.b.Append(call, " three").ok());
  EXPECT_EQ(s.a.store->Transcript("", call.id)->ids.size(), 13u);
  ASSERT_TRUE(s.b.Append(call, " four").ok());
  EXPECT_TRUE(s.a.store->Export({.id = call.id, .expected_version = 5}).ok());
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
  s.a.store->CheckInstance();
  EXPECT_EQ(s.a.store->stats().unsaved, 0);
  storage_->LoseAll();
  s.a.store->CheckInstance();
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
    while (s.a.store->UnloadParked() > 0) {
    }
    ASSERT_TRUE(s.a.store->Export(call).ok());
    EXPECT_EQ(s.a.store->Get("", call.id)->tier, Tier::kHost);
    s.a.store->CheckInstance();
    storage_->LoseAll();
    s.a.store->CheckInstance();
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
  s.a.store->CheckInstance();
  storage_->LoseAll();
  s.a.store->CheckInstance();
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

// The answer to a commit is lost. Where memory has the version before, the call is undone.
TEST_F(FailingSharedTierTest, UndoesACommitWhoseAnswerIsLost) {
  const SessionCall call{.id = s.a.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(s.a.Append(call, "one").ok());
  const auto lose = [](std::string_view operation) {
    return operation == "stored" ? absl::UnavailableError("cut") : absl::OkStatus();
  };
  disk->fail = lose;
  EXPECT_TRUE(absl::IsUnavailable(s.a.Append(call, " lost").status()));
  disk->fail = nullptr;
  s.a.ExpectHolds(call, "one");
  EXPECT_EQ(s.a.store->Get("", call.id)->record.version, 2);
  ASSERT_TRUE(s.a.store->Save(call).ok());
  EXPECT_EQ(disk->sessions[call.id].record.version, 2);
  disk->fail = lose;
  EXPECT_TRUE(absl::IsUnavailable(s.a.Append(call, " lost").status()));
  disk->fail = nullptr;
  ASSERT_TRUE(s.a.Append(call, " two").ok());
  s.b.ExpectHolds(call, "one two");
}

// Where only the tier had it, it is gone, and the client is told how things stand.
TEST_F(FailingSharedTierTest, GoesOnFromACommitThatCannotBeUndone) {
  const SessionCall call{.id = s.a.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(s.a.Append(call, "one").ok());
  s.Restart(s.a);
  disk->fail = [](std::string_view operation) {
    return operation == "stored" ? absl::UnavailableError("cut") : absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsUnavailable(s.a.Append(call, " two").status()));
  disk->fail = nullptr;
  const absl::Status told = s.a.Append(call, "?").status();
  EXPECT_EQ(told.code(), absl::StatusCode::kAborted) << told;
  EXPECT_THAT(Message(told), HasSubstr("version 3, whose call failed, was stored"));
  s.a.ExpectHolds(call, "one two");
}

TEST_F(FailingSharedTierTest, SaysNothingOfOthersSessionsWithoutTheTier) {
  const std::string id = s.a.Create({.durability = Durability::kDisk}, "ann");
  const std::string unsaved = s.a.Create({}, "ann");
  disk->fail = [](std::string_view) { return absl::UnavailableError("down"); };
  const absl::Status absent = s.a.store->Get("bob", std::string(32, 'a')).status();
  EXPECT_EQ(absent.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(s.a.store->Get("bob", id).status(), absent);
  EXPECT_EQ(s.a.store->Get("bob", unsaved).status(), absent);
  EXPECT_EQ(s.a.store->Acquire({.owner = "bob", .id = id}).status(), absent);
  EXPECT_TRUE(s.a.store->Get("ann", id).ok());
  disk->fail = nullptr;
  EXPECT_EQ(s.a.store->Get("bob", id).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FailingSharedTierTest, SavesNothingUnseen) {
  const SessionCall call{.id = s.a.Create({.durability = Durability::kDisk})};
  disk->fail = [](std::string_view) { return absl::UnavailableError("down"); };
  EXPECT_EQ(s.a.store->Save(call).status().code(), absl::StatusCode::kUnavailable);
}

// Runs `then` when the tier is next asked for `operation`, before it answers.
auto Before(std::string_view operation, std::function<void()> then) {
  return [=, done = std::make_shared<std::atomic<bool>>(false)](std::string_view asked) {
    if (asked == operation && !done->exchange(true)) then();
    return absl::OkStatus();
  };
}

// The call that looks reads the record before the other's claim, and comes back during it.
TEST_F(FailingSharedTierTest, ACallThatLooksDoesNotTakeAClaimedSessionsPlace) {
  for (const bool known : {false, true}) {
    const SessionCall call{.id = s.b.Create(), .durability = Durability::kDisk};
    ASSERT_TRUE(s.b.Append(call, "stored").ok());
    if (known) {
      ASSERT_TRUE(s.a.store->Get("", call.id).ok());
    }
    std::promise<void> looking, claiming;
    disk->fail = [&, reads = std::make_shared<std::atomic<int>>(0),
                  claims = std::make_shared<std::atomic<int>>(0)](std::string_view operation) {
      if (operation == "Find" && ++*reads == 1) {
        looking.set_value();
        claiming.get_future().wait();
      }
      if (operation == "Claim" && ++*claims == 1) {
        claiming.set_value();
        // Time for the other call to do the harm that it may not do.
        absl::SleepFor(absl::Milliseconds(50));
      }
      return absl::OkStatus();
    };
    std::thread look([&] { EXPECT_TRUE(s.a.store->Get("", call.id).ok()); });
    looking.get_future().wait();
    const auto appended = s.a.Append({.id = call.id}, " here");
    look.join();
    disk->fail = nullptr;
    ASSERT_TRUE(appended.ok()) << appended.status();
    s.a.ExpectHolds(call, "stored here");
    EXPECT_EQ(s.a.store->HeldHere().size(), 1u);
    ASSERT_TRUE(s.a.store->Save(call).ok());
  }
}

// While the call compares, another that looks finds out that the session was overtaken.
TEST_F(FailingSharedTierTest, ACallThatChangesClaimsWhatAnotherPutInPlaceMeanwhile) {
  const SessionCall call{.id = s.a.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(s.a.Append(call, "one").ok());
  ASSERT_TRUE(s.b.Append(call, " two").ok());
  disk->fail = Before("Look", [&] { EXPECT_TRUE(s.a.store->Get("", call.id).ok()); });
  const auto appended = s.a.Append({.id = call.id}, " three");
  disk->fail = nullptr;
  ASSERT_TRUE(appended.ok()) << appended.status();
  s.a.ExpectHolds(call, "one two three");
  ASSERT_TRUE(s.a.store->Save(call).ok());
  s.b.ExpectHolds(call, "one two three");
}

// A call begins, out of touch with the tier, while one that looks reads what took the place.
TEST_F(FailingSharedTierTest, ACallThatLooksDoesNotDropWhatACallWorksOn) {
  const SessionCall call{.id = s.a.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(s.a.Append(call, "one").ok());
  ASSERT_TRUE(s.b.Append(call, " two").ok());
  std::unique_ptr<Lease> lease;
  bool down = false;
  disk->fail = [&](std::string_view operation) {
    if (down) return absl::UnavailableError("down");
    if (operation != "Find" || lease != nullptr) return absl::OkStatus();
    down = true;
    auto acquired = s.a.store->Acquire({.id = call.id});
    down = false;
    EXPECT_TRUE(acquired.ok()) << acquired.status();
    if (acquired.ok()) lease = *std::move(acquired);
    return absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsAborted(s.a.store->Get("", call.id).status()));
  disk->fail = nullptr;
  ASSERT_NE(lease, nullptr);
  ASSERT_TRUE(lease->Commit(*s.a.Compute(lease->Start(), " stale"), "").ok());
  EXPECT_THAT(Message(s.a.Append(call, "?").status()), HasSubstr("which was not saved, is lost"));
  s.a.ExpectHolds(call, "one two");
}

// As when a Put's answer is lost: the tier renews the claim, and this server is about to hear of
// it.
TEST_F(FailingSharedTierTest, DoesNotTakeItsOwnNewClaimForAnothers) {
  const SessionCall call{.id = s.a.Create({.durability = Durability::kDisk})};
  ASSERT_TRUE(s.a.Append(call, "unsaved").ok());
  std::promise<void> looking;
  std::thread look;
  disk->fail = [&, looks = std::make_shared<std::atomic<int>>(0)](std::string_view operation) {
    if (operation == "Look" && ++*looks == 1) looking.set_value();
    if (operation != "write" || look.joinable()) return absl::OkStatus();
    const auto renew = [&](int64_t by) {
      const std::lock_guard lock(disk->mutex);
      disk->sessions[call.id].epoch += by;
    };
    renew(1);
    look = std::thread([&] { EXPECT_EQ(s.a.store->Get("", call.id)->record.position, 7); });
    looking.get_future().wait();
    absl::SleepFor(absl::Milliseconds(50));  // for the look to end
    renew(-1);
    return absl::OkStatus();
  };
  EXPECT_EQ(s.a.store->Flush(std::chrono::steady_clock::now() + std::chrono::seconds(60)), 0);
  look.join();
  disk->fail = nullptr;
  EXPECT_TRUE(s.losses.empty()) << s.losses.front();
  s.a.ExpectHolds(call, "unsaved");
}

TEST_P(SharedTierTest, HandsOverOnlyWhatOthersCannotFind) {
  const SessionCall stored{.id = s.a.Create({.durability = Durability::kDisk})};
  const SessionCall unsaved{.id = s.a.Create({.durability = Durability::kDisk})};
  ASSERT_TRUE(s.a.Append(unsaved, "here").ok());
  ASSERT_TRUE(s.b.store->Get("", unsaved.id).ok());
  EXPECT_TRUE(s.a.store->shares_storage());
  const auto held = s.a.store->HeldHere();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].id, unsaved.id);
  EXPECT_TRUE(s.b.store->HeldHere().empty());

  s.a.store->Forget(unsaved.id);
  EXPECT_TRUE(s.a.store->HeldHere().empty());
  EXPECT_EQ(s.a.store->Records().size(), 1u);
  s.b.ExpectHolds(unsaved, "");
}

TEST(UnsharedTierTest, HandsOverAllThatLiesOnADiskOfItsOwn) {
  StoreHarness h;
  h.Start(std::make_unique<MemoryTier>(std::make_shared<MemoryDisk>()));
  h.Create({.durability = Durability::kDisk});
  EXPECT_FALSE(h.store->shares_storage());
  EXPECT_EQ(h.store->HeldHere().size(), 1u);
}

}  // namespace
}  // namespace tvq
