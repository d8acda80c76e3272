// Two servers whose durable tier fails, or lets another call in between, when told to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/server/sessions/two_servers.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

class FailingSharedTierTest : public ::testing::Test {
 protected:
  SharedMemory storage_;
  const std::shared_ptr<MemoryDisk> disk = storage_.disk;
  Servers s{&storage_};
};

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

TEST_F(FailingSharedTierTest, MakesSessionsInMemoryWhileTheTierIsAway) {
  disk->fail = [](std::string_view) { return absl::UnavailableError("down"); };
  const SessionCall call{.id = s.a.Create()};
  ASSERT_TRUE(s.a.Append(call, "live").ok());
  const auto kept = s.a.store->Create("", {.durability = Durability::kDisk}).status();
  EXPECT_TRUE(absl::IsUnavailable(kept)) << kept;
  disk->fail = nullptr;
  s.a.store->saver().SaveOwed();
  s.b.ExpectHolds(call, "live");
}

TEST_F(FailingSharedTierTest, AParentIsFreeWhileItsForksAreStored) {
  const SessionCall parent{.id = s.a.Create()};
  ASSERT_TRUE(s.a.Append(parent, "root").ok());
  std::promise<void> begun, go_on;
  const std::shared_future<void> may = go_on.get_future();
  std::atomic<int> puts = 0;
  disk->fail = [&](std::string_view operation) {
    if (operation != "Put") return absl::OkStatus();
    if (++puts == 3) begun.set_value();  // all at once
    may.wait();
    return absl::OkStatus();
  };
  auto forks =
      std::async(std::launch::async, [&] { return s.a.store->Fork(parent, {.count = 3}); });
  begun.get_future().wait();
  EXPECT_TRUE(s.a.Append(parent, " and more").ok());
  go_on.set_value();
  const auto views = forks.get();
  ASSERT_TRUE(views.ok()) << views.status();
  ASSERT_EQ(views->size(), 3u);
  disk->fail = nullptr;
  for (const SessionView& view : *views) s.b.ExpectHolds({.id = view.record.id}, "root");
  s.a.ExpectHolds(parent, "root and more");
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
auto Before(std::string_view operation, const std::function<void()>& then) {
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
    EXPECT_EQ(s.a.store->stats().unsaved, 1);
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

// A save begins out of touch with the tier, which comes back while it runs.
TEST_F(FailingSharedTierTest, ASaveThatIsRefusedTellsAtOnceWhatWasLost) {
  const SessionCall call{.id = s.a.Create(), .durability = Durability::kDisk};
  ASSERT_TRUE(s.a.Append(call, "one").ok());
  ASSERT_TRUE(s.a.Append({.id = call.id}, " unsaved").ok());
  ASSERT_TRUE(s.b.Append(call, " two").ok());
  disk->fail = [looks = std::make_shared<std::atomic<int>>(0)](std::string_view operation) {
    return operation == "Look" && ++*looks == 1 ? absl::UnavailableError("down") : absl::OkStatus();
  };
  const auto saved = s.a.store->Save(call).status();
  disk->fail = nullptr;
  EXPECT_TRUE(absl::IsAborted(saved)) << saved;
  EXPECT_THAT(Message(saved), HasSubstr("version 3, which was not saved, is lost"));
  ASSERT_TRUE(s.a.Append(call, " three").ok());  // told once
  s.a.ExpectHolds(call, "one two three");
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

}  // namespace
}  // namespace tvq
