// Retries of calls whose results are stored: answered as the first call was, or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/server/sessions/durable_harness.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

TEST(DurableRetriesTest, AnswersRetriesAfterARestart) {
  DurableHarness h;
  const std::string id = h.Create({.idempotency_key = "create"});
  const SessionCall call{
      .id = id, .expected_version = 1, .durability = Durability::kDisk, .idempotency_key = "k"};
  {
    auto lease = h.store->Acquire(call);
    ASSERT_TRUE((*lease)->Commit(*h.Compute((*lease)->Start(), "once"), "the reply").ok());
  }
  h.Restart();
  EXPECT_EQ(h.Create({.idempotency_key = "create"}), id);
  EXPECT_EQ(h.store->Create("", {.idempotency_key = "create", .request_hash = 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto retry = h.store->Acquire(call);
  ASSERT_TRUE(retry.ok()) << retry.status();
  ASSERT_TRUE((*retry)->replay().has_value());
  EXPECT_EQ(*(*retry)->replay(), "the reply");
}

// The tier, as a test holds it up in the midst of a Put.
struct HeldPut {
  explicit HeldPut(MemoryDisk& disk) {
    disk.fail = [this](std::string_view operation) {
      if (operation != "write") return absl::OkStatus();
      reached.set_value();
      return result.get_future().get();
    };
  }
  std::promise<void> reached;
  std::promise<absl::Status> result;
};

TEST(DurableRetriesTest, AnswersNoRetryOfACreationThatMayStillBeUndone) {
  DurableHarness h;
  const CreateOptions options{.durability = Durability::kDisk, .idempotency_key = "k"};
  HeldPut put(*h.disk);
  auto first = std::async(std::launch::async, [&] { return h.store->Create("", options); });
  put.reached.get_future().wait();
  for (const CreateOptions& retry : {options, {.idempotency_key = "k"}}) {
    const auto answer = h.store->Create("", retry);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kAborted) << answer.status();
    EXPECT_THAT(std::string(answer.status().message()), HasSubstr("idempotency_key"));
  }
  put.result.set_value(absl::UnavailableError("down"));
  EXPECT_EQ(first.get().status().code(), absl::StatusCode::kUnavailable);
  h.disk->fail = nullptr;
  const auto retry = h.store->Create("", options);
  ASSERT_TRUE(retry.ok()) << retry.status();
  EXPECT_EQ(retry->record.persisted_version, 1);
}

TEST(DurableRetriesTest, AnswersNoRetryOfAForkThatMayStillBeUndone) {
  DurableHarness h;
  const SessionCall call{.id = h.Create(), .durability = Durability::kDisk, .idempotency_key = "k"};
  ASSERT_TRUE(h.Append({.id = call.id}, "text").ok());
  HeldPut put(*h.disk);
  auto first = std::async(std::launch::async, [&] { return h.store->Fork(call, {}); });
  put.reached.get_future().wait();
  EXPECT_EQ(h.store->Fork(call, {}).status().code(), absl::StatusCode::kAborted);
  put.result.set_value(absl::OkStatus());
  ASSERT_TRUE(first.get().ok());
  h.disk->fail = nullptr;
  const auto retry = h.store->Fork(call, {});
  ASSERT_TRUE(retry.ok()) << retry.status();
  h.Restart();
  h.ExpectHolds({.id = retry->front().record.id}, "text");
}

TEST(DurableRetriesTest, AnswersNoRetryOfACallThatMayStillBeUndone) {
  DurableHarness h;
  const SessionCall call{.id = h.Create(), .durability = Durability::kDisk, .idempotency_key = "k"};
  HeldPut put(*h.disk);
  auto first = std::async(std::launch::async, [&] { return h.store->Mark(call, "m"); });
  put.reached.get_future().wait();
  const auto retry = h.store->Mark(call, "m");
  EXPECT_EQ(retry.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(retry.status().message()), HasSubstr("idempotency_key, try again"));
  put.result.set_value(absl::OkStatus());
  ASSERT_TRUE(first.get().ok());
}

TEST(DurableRetriesTest, ARetryMayPromiseMoreThanTheFirstCall) {
  DurableHarness h;
  const CreateOptions create{.durability = Durability::kDisk, .idempotency_key = "c"};
  const SessionCall call{.id = h.Create({.idempotency_key = "c"}), .idempotency_key = "k"};
  {
    auto lease = h.store->Acquire(call);
    ASSERT_TRUE((*lease)->Commit(*h.Compute((*lease)->Start(), "once"), "the reply").ok());
  }
  SessionCall retry = call;
  retry.durability = Durability::kDisk;
  h.disk->fail = [](std::string_view) { return absl::UnavailableError("down"); };
  EXPECT_EQ(h.store->Acquire(retry).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(h.store->Create("", create).status().code(), absl::StatusCode::kUnavailable);
  h.disk->fail = nullptr;
  {
    const auto lease = h.store->Acquire(retry);
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ(*(*lease)->replay(), "the reply");
    EXPECT_EQ((*lease)->record().persisted_version, 2);
  }
  ASSERT_TRUE(h.store->Create("", create).ok());
  h.Restart();
  h.ExpectHolds({.id = call.id}, "once");
}

}  // namespace
}  // namespace tvq
