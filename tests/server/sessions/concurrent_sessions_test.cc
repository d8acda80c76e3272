// Many clients at once, through the engine, with room for a fraction of their sessions. Meant for
// ThreadSanitizer, and for what only real interleavings show.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

class KeepSink : public RecordingSink {
 public:
  void OnKept(Continuation continuation) override { kept = std::move(continuation); }
  std::optional<Continuation> kept;  // set before the request is done
};

std::string TextOf(std::span<const int32_t> tokens) {
  std::string text;
  for (const int32_t token : tokens) text += static_cast<char>(token - 3);
  return text;
}

// A client's call, as the service makes it. Returns what the context gained.
absl::StatusOr<std::string> Generate(StoreHarness& h, const SessionCall& call,
                                     std::string_view prompt, int32_t max_tokens) {
  auto lease = h.store->Acquire(call);
  if (!lease.ok()) return lease.status();
  const auto sink = std::make_shared<KeepSink>();
  // Greedy: a sampled token may once in a million be a special one, which is no byte of a text.
  Request request =
      Ask(sink, prompt, {.temperature = 0, .ignore_eos = true, .max_tokens = max_tokens});
  request.owner = call.owner;
  request.start = (*lease)->Start();
  request.keep = true;
  h.store->UsePrefixes(&request);
  const auto handle = h.engine->Submit(std::move(request));
  if (!handle.ok()) return handle.status();
  if (auto status = sink->Wait(); !status.ok()) return status;
  if (!sink->kept) return absl::InternalError("nothing was kept");
  std::string gained = TextOf(sink->kept->tokens);
  const auto view = (*lease)->Commit(*std::move(sink->kept), "");
  if (!view.ok()) return view.status();
  return gained;
}

class Client {
 public:
  Client(StoreHarness& h, int number)
      : h_(h), owner_("owner " + std::to_string(number)), random_(static_cast<uint64_t>(number)) {}

  void Run(int calls) {
    for (int i = 0; i < calls && !::testing::Test::HasFailure(); ++i) Step();
  }

  void ExpectAll() {
    for (const auto& [id, text] : sessions_) {
      h_.ExpectHolds({.owner = owner_, .id = id}, text);
    }
  }

 private:
  int Draw(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }

  void Step() {
    const int kind = Draw(10);
    if (sessions_.empty() || (kind == 0 && sessions_.size() < 6)) {
      const auto view = h_.store->Create(owner_, {});
      ASSERT_TRUE(view.ok()) << view.status();
      sessions_[view->record.id] = "";
      return;
    }
    const auto at = std::next(sessions_.begin(), Draw(static_cast<int>(sessions_.size())));
    const SessionCall call{.owner = owner_, .id = at->first};
    std::string& text = at->second;
    if (kind < 6) {
      const auto gained = Generate(h_, call, "a question: ", 1 + Draw(6));
      ASSERT_TRUE(gained.ok()) << gained.status();
      text += *gained;
    } else if (kind == 6 && sessions_.size() < 8) {
      const auto forks = h_.store->Fork(call, {});
      ASSERT_TRUE(forks.ok()) << forks.status();
      sessions_[forks->front().record.id] = text;
    } else if (kind == 7) {
      ASSERT_TRUE(h_.store->Mark(call, "m").ok());
      const auto gained = Generate(h_, call, "then ", 2);
      ASSERT_TRUE(gained.ok()) << gained.status();
      ASSERT_TRUE(h_.store->Rewind(call, "m").ok());
      ASSERT_TRUE(h_.store->Unmark(call, "m").ok());
    } else if (kind == 8) {
      const auto saved = h_.store->Save(call);
      EXPECT_TRUE(saved.ok() || absl::IsUnavailable(saved.status())) << saved.status();
    } else {
      const auto deleted = h_.store->Delete(call);
      if (deleted.ok()) sessions_.erase(at);
      EXPECT_TRUE(deleted.ok() || absl::IsUnavailable(deleted)) << deleted;
    }
  }

  StoreHarness& h_;
  const std::string owner_;
  std::mt19937_64 random_;
  std::map<std::string, std::string> sessions_;
};

TEST(ConcurrentSessionsTest, KeepsEveryClientsSessions) {
  constexpr int kClients = 6;
  const int64_t place = StoreHarness().store->PlaceBytes(0);
  StoreHarness h({.host_bytes = 12 * place, .prefix_bytes = 4 * place}, {},
                 {.max_num_seqs = 4, .max_num_batched_tokens = 32, .state_memory_bytes = 8000});
  auto disk = std::make_shared<MemoryDisk>();
  std::atomic<int64_t> operations = 0;
  disk->fail = [&](std::string_view operation) {
    const bool fails = operation != "Get" && ++operations % 101 == 0;
    return fails ? absl::UnavailableError("injected") : absl::OkStatus();
  };
  h.Start(std::make_unique<MemoryTier>(disk));
  std::vector<std::unique_ptr<Client>> clients;
  clients.reserve(kClients);
  for (int i = 0; i < kClients; ++i) clients.push_back(std::make_unique<Client>(h, i));
  {
    std::vector<std::thread> threads;
    threads.reserve(kClients);
    for (auto& client : clients) threads.emplace_back([&] { client->Run(120); });
    // Somebody looks on all the while.
    std::atomic<bool> done = false;
    std::thread watcher([&] {
      while (!done) {
        const SessionStats stats = h.store->stats();
        EXPECT_LE(stats.device.state_bytes, stats.device.budget_bytes);
        h.store->List("owner 1", {}, 0, "").status().IgnoreError();
        h.store->sweeper().DeleteExpired();
      }
    });
    for (std::thread& thread : threads) thread.join();
    done = true;
    watcher.join();
  }
  for (auto& client : clients) client->ExpectAll();
  // What was counted in passing is what there is; evictors may be moving states still.
  const auto counted = [&] {
    SessionStats there;
    for (int i = 0; i < kClients; ++i) {
      const auto page = h.store->List("owner " + std::to_string(i), {}, 1000, "");
      for (const SessionView& view : page->sessions) {
        TierStats* const tiers[] = {&there.device, &there.host, &there.durable};
        ++tiers[static_cast<int>(view.tier)]->sessions;
        there.unsaved += view.record.persisted_version < view.record.version ? 1 : 0;
      }
    }
    const SessionStats stats = h.store->stats();
    return stats.leased == 0 && stats.unsaved == there.unsaved &&
           stats.device.sessions == there.device.sessions &&
           stats.host.sessions == there.host.sessions &&
           stats.durable.sessions == there.durable.sessions;
  };
  bool agreed = false;
  for (int i = 0; i < 1000 && !agreed; ++i) {
    agreed = counted();
    if (!agreed) absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_TRUE(agreed);
  EXPECT_GT(h.store->stats().restores, 0);
  EXPECT_GT(h.store->stats().saves, 0);
}

TEST(ConcurrentSessionsTest, LetsOneOfManyWritersThrough) {
  StoreHarness h;
  const SessionCall call{.id = h.Create(), .expected_version = 1};
  std::atomic<int> committed = 0;
  std::atomic<int> aborted = 0;
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto gained = Generate(h, call, "mine", 4);
      if (gained.ok()) ++committed;
      if (absl::IsAborted(gained.status())) ++aborted;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(committed, 1);
  EXPECT_EQ(aborted, 7);
  EXPECT_EQ(h.store->Get("", call.id)->record.version, 2);
}

}  // namespace
}  // namespace tvq
