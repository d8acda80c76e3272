// More sessions than the device, or host memory, can hold.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

// Room for `states` states of 1,000 bytes on the device.
EngineOptions Device(int64_t states) {
  return {.max_num_seqs = 16, .max_num_batched_tokens = 32, .state_memory_bytes = 1000 * states};
}

std::string TextOf(size_t i) { return "session " + std::to_string(i); }

std::vector<SessionCall> Fill(StoreHarness& h, size_t count) {
  std::vector<SessionCall> calls;
  for (size_t i = 0; i < count; ++i) {
    calls.push_back({.id = h.Create()});
    const auto view = h.Append(calls.back(), TextOf(i), /*pending=*/i % 2 == 0);
    EXPECT_TRUE(view.ok()) << view.status();
  }
  return calls;
}

TEST(TierMovesTest, KeepsMoreSessionsThanTheDeviceHolds) {
  StoreHarness h({.host_bytes = 200'000}, {}, Device(4));
  const auto calls = Fill(h, 40);
  EXPECT_LE(h.engine->budget().used(), 4000);
  const SessionStats stats = h.store->stats();
  EXPECT_GE(stats.host.sessions, 36);
  EXPECT_EQ(stats.host.sessions + stats.device.sessions, 40);
  EXPECT_LE(stats.host.state_bytes, stats.host.budget_bytes);
  for (size_t i = 0; i < calls.size(); ++i) h.ExpectHolds(calls[i], TextOf(i));
  EXPECT_GE(h.store->stats().restores, 36);
}

TEST(TierMovesTest, KeepsRoomForTheNextRequest) {
  StoreHarness h({.host_bytes = 200'000}, {}, Device(32));
  Fill(h, 32);
  // Two states, or an eighth.
  EXPECT_TRUE(Eventually([&] { return h.engine->budget().used() <= 30'000; }));
  EXPECT_EQ(h.engine->budget().used(), 30'000) << "and no more than that";
}

// A request of the engine's, which waits until what is kept makes room; but not forever.
absl::Status Generate(StoreHarness& h, int32_t n, std::optional<StartPoint> start = std::nullopt) {
  auto sink = std::make_shared<RecordingSink>();
  Request request = Ask(sink, "a prompt", {.n = n});
  request.start = std::move(start);
  request.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto handle = h.engine->Submit(std::move(request));
  return handle.ok() ? sink->Wait() : handle.status();
}

TEST(TierMovesTest, MakesRoomForRequestsOfManyStates) {
  StoreHarness h({.host_bytes = 1'000'000}, {}, Device(64));
  Fill(h, 64);
  for (const int32_t n : {4, 5, 16}) {
    ASSERT_TRUE(Eventually([&] { return h.engine->budget().used() <= 62'000; }));
    const auto status = Generate(h, n);
    EXPECT_TRUE(status.ok()) << "n=" << n << ": " << status;
    Fill(h, 16);
  }
}

TEST(TierMovesTest, MakesRoomWhereLessThanAStateIsMissing) {
  StoreHarness h({.host_bytes = 200'000}, {},
                 {.max_num_seqs = 16, .max_num_batched_tokens = 32, .state_memory_bytes = 1600});
  const auto calls = Fill(h, 1);
  const auto lease = h.store->Acquire(calls[0]);
  ASSERT_TRUE(lease.ok()) << lease.status();
  const auto status = Generate(h, 1, (*lease)->Start());
  EXPECT_TRUE(status.ok()) << status;
}

TEST(TierMovesTest, MovesTheLeastRecentlyUsedFirst) {
  StoreHarness h({.host_bytes = 200'000}, {}, Device(10));
  const auto calls = Fill(h, 8);
  ASSERT_TRUE(h.Append(calls[0], "!").ok());
  Fill(h, 4);
  EXPECT_TRUE(Eventually([&] { return h.store->stats().host.sessions >= 3; }));
  EXPECT_EQ(h.store->Get("", calls[0].id)->tier, Tier::kDevice);
  EXPECT_EQ(h.store->Get("", calls[1].id)->tier, Tier::kHost);
}

TEST(TierMovesTest, StoresWhatHostMemoryCannotHold) {
  const int64_t place = StoreHarness().store->PlaceBytes(0);
  StoreHarness h({.host_bytes = 5 * place}, {}, Device(4));
  auto disk = std::make_shared<MemoryDisk>();
  h.Start(std::make_unique<MemoryTier>(disk));
  const auto calls = Fill(h, 60);
  EXPECT_TRUE(
      Eventually([&] { return h.store->stats().host.state_bytes <= h.options.host_bytes; }));
  // The last ones may still be on their way.
  EXPECT_TRUE(Eventually([&] { return h.store->stats().durable.sessions >= 40; }));
  EXPECT_TRUE(Eventually([&] {
    h.store->loader().UnloadParked();
    return h.store->loader().UnloadParked() == 0;
  }));
  for (size_t i = 0; i < calls.size(); ++i) h.ExpectHolds(calls[i], TextOf(i));
  // What was stored on the way out is there after a crash.
  size_t found = 0;
  h.Start(std::make_unique<MemoryTier>(disk));
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!h.store->Get("", calls[i].id).ok()) continue;
    h.ExpectHolds(calls[i], TextOf(i));
    ++found;
  }
  EXPECT_GE(found, 40u);
}

TEST(TierMovesTest, KeepsWhatCannotBeStored) {
  const int64_t place = StoreHarness().store->PlaceBytes(0);
  StoreHarness h({.host_bytes = 6 * place}, {}, Device(4));
  auto disk = std::make_shared<MemoryDisk>();
  std::atomic<bool> full = true;
  disk->fail = [&](std::string_view operation) {
    return full && operation == "write" ? absl::ResourceExhaustedError("disk full")
                                        : absl::OkStatus();
  };
  h.Start(std::make_unique<MemoryTier>(disk));
  // At some session there is nowhere to go, until there is.
  std::thread heal([&] {
    EXPECT_TRUE(Eventually([&] { return h.store->stats().save_failures >= 2; }));
    full = false;
  });
  const auto calls = Fill(h, 30);
  heal.join();
  EXPECT_GE(h.store->stats().saves, 1);
  for (size_t i = 0; i < 30; ++i) h.ExpectHolds(calls[i], TextOf(i));
}

TEST(TierMovesTest, PassesOverWhatCannotMove) {
  const int64_t place = StoreHarness().store->PlaceBytes(0);
  StoreHarness h({.host_bytes = place}, {}, Device(16));
  auto disk = std::make_shared<MemoryDisk>();
  h.Start(std::make_unique<MemoryTier>(disk));
  const auto unsaved = Fill(h, 4);
  const auto saved = Fill(h, 5);
  for (const SessionCall& call : saved) ASSERT_TRUE(h.store->Save(call).ok());
  disk->fail = [](std::string_view operation) {
    return operation == "Put" ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
  };
  // The first go to host memory, the last has nowhere to go, and those that are stored make room.
  Fill(h, 11);
  EXPECT_TRUE(Eventually([&] { return h.store->stats().durable.sessions >= 3; }));
  EXPECT_EQ(h.store->Get("", unsaved[3].id)->tier, Tier::kDevice);
  EXPECT_EQ(h.store->Get("", saved[0].id)->tier, Tier::kDurable);
  for (size_t i = 0; i < unsaved.size(); ++i) h.ExpectHolds(unsaved[i], TextOf(i));
  for (size_t i = 0; i < saved.size(); ++i) h.ExpectHolds(saved[i], TextOf(i));
}

// The one that was not used for longest fails before its state is read, which would be a use.
TEST(TierMovesTest, StoresTheOthersWhereOneCannotBeStored) {
  const int64_t place = StoreHarness().store->PlaceBytes(0);
  for (const absl::Status& failure : {absl::DataLossError("its transcript is gone"),
                                      absl::UnavailableError("its folder is bad")}) {
    StoreHarness h({.host_bytes = 4 * place}, {}, Device(4));
    h.store.reset();  // its tiers would evict, too
    MemoryTier durable(std::make_shared<MemoryDisk>());
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<Checkpoint>> checkpoints;
    std::shared_ptr<Tiers> tiers;
    const auto persist = [&](const std::string& id) {
      if (id == "0") return failure;
      const std::lock_guard lock(mutex);
      tiers->SetStored(*checkpoints.at(id), {id, 1});
      return absl::OkStatus();
    };
    tiers = Tiers::Create(
        {.engine = h.engine, .host_bytes = 4 * place, .durable = &durable, .persist = persist});
    for (size_t i = 0; i < 30; ++i) {
      auto next = h.Compute(std::nullopt, TextOf(i));
      ASSERT_TRUE(next.ok()) << i << ", after " << failure << ": " << next.status();
      auto checkpoint = tiers->Add(0, *std::move(next));
      const std::lock_guard lock(mutex);
      checkpoints[std::to_string(i)] = checkpoint;
      tiers->AddHolder(*checkpoint, {std::to_string(i), 1});
    }
    EXPECT_NE(tiers->Where(*checkpoints["0"]), Tier::kDurable);
    EXPECT_EQ(tiers->Where(*checkpoints["1"]), Tier::kDurable);
    tiers->Stop();
    checkpoints.clear();
  }
}

// What others write, too, is read into memory before it is sent.
TEST(TierMovesTest, ExportsOfStoredSessionsStayWithinHostMemory) {
  const int64_t place = StoreHarness().store->PlaceBytes(0);
  StoreHarness h({.host_bytes = 2 * place}, {}, Device(16));
  auto disk = std::make_shared<MemoryDisk>();
  h.Start(std::make_unique<MemoryTier>(disk, /*shared=*/true));
  const auto calls = Fill(h, 10);
  for (const SessionCall& call : calls) ASSERT_TRUE(h.store->Save(call).ok());
  h.Start(std::make_unique<MemoryTier>(disk, /*shared=*/true));
  std::vector<std::unique_ptr<SnapshotStream>> readers;
  std::vector<SessionCall> refused;
  for (const SessionCall& call : calls) {
    auto stream = h.store->Export(call, {});
    if (stream.ok()) {
      readers.push_back(*std::move(stream));
    } else {
      EXPECT_TRUE(absl::IsResourceExhausted(stream.status())) << stream.status();
      refused.push_back(call);
    }
    EXPECT_LE(h.store->stats().host.state_bytes, 2 * place);
  }
  EXPECT_GE(readers.size(), 2u);
  ASSERT_FALSE(refused.empty());
  readers.clear();
  for (const SessionCall& call : refused)
    EXPECT_TRUE(h.store->Export(call, {}).ok()) << "one by one";
}

TEST(TierMovesTest, StoresWhatIsLargerThanHostMemoryFromTheDevice) {
  const FakeOptions growing{.bytes_per_token = 1000};
  const int64_t place = StoreHarness({.host_bytes = 1'000'000}, growing).store->PlaceBytes(0);
  StoreHarness h({.host_bytes = place}, growing, Device(70));  // one of 60 tokens
  auto disk = std::make_shared<MemoryDisk>();
  h.Start(std::make_unique<MemoryTier>(disk));
  const std::string text(60, 'x');
  const SessionCall large{.id = h.Create()};
  ASSERT_TRUE(h.Append(large, text).ok());
  const SessionCall next{.id = h.Create()};
  ASSERT_TRUE(h.Append(next, text).ok());
  EXPECT_TRUE(Eventually([&] { return h.store->Get("", large.id)->tier == Tier::kDurable; }))
      << h.store->Save(large).status();
  EXPECT_EQ(h.store->stats().host.state_bytes, 0);
  EXPECT_EQ(h.store->Transcript("", large.id)->tokens.Ids().size(), text.size());
}

TEST(TierMovesTest, NeedsRoomForAStateInHostMemory) {
  StoreHarness h;
  const int64_t place = h.store->PlaceBytes(0);
  h.options = {.host_bytes = 2 * place - 1, .prefix_bytes = place};
  const auto opened = Store::Open(h.engine, h.options, nullptr, [] { return absl::Now(); });
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument) << opened.status();
  EXPECT_EQ(opened.status().message().find(absl::StrCat("--session-host-bytes: is ", 2 * place - 1,
                                                        ", must be at least ", 2 * place)),
            0U)
      << opened.status();
  h.options.host_bytes = 2 * place;
  h.Start(nullptr);
}

TEST(TierMovesTest, ASlowDiskDoesNotHoldUpWhatIsInMemory) {
  StoreHarness h;
  auto disk = std::make_shared<MemoryDisk>();
  h.Start(std::make_unique<MemoryTier>(disk));
  const auto calls = Fill(h, 10);
  for (const SessionCall& call : calls) ASSERT_TRUE(h.store->Save(call).ok());
  h.Start(std::make_unique<MemoryTier>(disk));
  std::vector<std::unique_ptr<Lease>> leases;
  leases.reserve(calls.size());
  for (const SessionCall& call : calls) leases.push_back(*h.store->Acquire(call));
  const SessionCall in_memory{.id = h.Create()};
  ASSERT_TRUE(h.Append(in_memory, "here").ok());
  std::promise<void> slow;
  const std::shared_future<void> done = slow.get_future();
  disk->fail = [&](std::string_view operation) {
    if (operation == "Get") done.wait();
    return absl::OkStatus();
  };
  std::vector<std::thread> waiting;
  waiting.reserve(leases.size());
  for (auto& lease : leases) {
    waiting.emplace_back([&] { EXPECT_TRUE(h.Working(lease->Start()).ok()); });
  }
  h.ExpectHolds(in_memory, "here");
  slow.set_value();
  for (std::thread& thread : waiting) thread.join();
}

// A session and its fork at one state that only the durable tier has, in a file of each.
struct StoredPair {
  StoredPair() {
    h.Start(std::make_unique<MemoryTier>(disk));
    const SessionCall parent{.id = h.Create()};
    EXPECT_TRUE(h.Append(parent, "root").ok());
    const auto forks = h.store->Fork(parent, {});
    EXPECT_TRUE(forks.ok()) << forks.status();
    const auto [first_id, second_id] = std::minmax(parent.id, forks->front().record.id);
    first = {.id = first_id};
    second = {.id = second_id, .durability = Durability::kDisk};
    for (const SessionCall& call : {first, second}) EXPECT_TRUE(h.store->Save(call).ok());
    Fill(h, 30);
    EXPECT_TRUE(Eventually([&] { return h.store->Get("", second.id)->tier == Tier::kDurable; }));
  }
  std::map<int64_t, std::string>& Files(const SessionCall& call) {
    return disk->sessions.at(call.id).versions;
  }

  StoreHarness h{{.host_bytes = 5 * StoreHarness().store->PlaceBytes(0)}, {}, Device(4)};
  std::shared_ptr<MemoryDisk> disk = std::make_shared<MemoryDisk>();
  SessionCall first, second;  // whose copy is read first, and then
};

TEST(TierMovesTest, ADamagedCopyDoesNotReplaceAGoodOne) {
  StoredPair pair;
  {
    const std::lock_guard lock(pair.disk->mutex);
    std::string& data = pair.Files(pair.first).rbegin()->second;
    data[data.size() - 30] ^= 1;  // in the state, before its last checksums and the end mark
  }
  const auto marked = pair.h.store->Mark(pair.second, "m");
  ASSERT_TRUE(marked.ok()) << marked.status();
  pair.h.ExpectHolds(pair.second, "root");
  EXPECT_GE(pair.h.store->stats().corrupt, 1);
  pair.h.Start(std::make_unique<MemoryTier>(pair.disk));
  pair.h.ExpectHolds(pair.second, "root");
}

// As in the moment between a later version's coming and its session's letting go of the earlier.
TEST(TierMovesTest, AReplacedCopyIsNotCorrupt) {
  StoredPair pair;
  {
    const std::lock_guard lock(pair.disk->mutex);
    pair.Files(pair.first).clear();
  }
  const auto marked = pair.h.store->Mark(pair.second, "m");
  ASSERT_TRUE(marked.ok()) << marked.status();
  pair.h.ExpectHolds(pair.second, "root");
  EXPECT_EQ(pair.h.store->stats().corrupt, 0);
}

TEST(TierMovesTest, SharesOneImageAmongForks) {
  StoreHarness h({.host_bytes = 400'000}, {}, Device(4));
  const SessionCall root{.id = h.Create()};
  ASSERT_TRUE(h.Append(root, "root").ok());
  const auto forks = h.store->Fork(root, {.count = 100});
  ASSERT_TRUE(forks.ok()) << forks.status();
  Fill(h, 10);
  EXPECT_TRUE(Eventually([&] { return h.store->Get("", root.id)->tier == Tier::kHost; }));
  EXPECT_LE(h.store->stats().host.state_bytes, 11 * h.store->PlaceBytes(0));
  for (const SessionView& fork : *forks) h.ExpectHolds({.id = fork.record.id}, "root");
}

}  // namespace
}  // namespace tvq
