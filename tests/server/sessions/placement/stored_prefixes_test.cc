// States of common prompts that outlive the process, through the engine.
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/placement/prefix_harness.h"

namespace tvq {
namespace {

constexpr int64_t kBytes = 100'000;
// Four chunks that begin as kLong does, and one token more.
const std::string kLonger = kLong.substr(0, 16) + "0123456789abcdef!";

struct StoredHarness : PrefixHarness {
  explicit StoredHarness(int64_t bytes = kBytes, std::shared_ptr<MemoryDisk> there = nullptr)
      : disk(there != nullptr ? std::move(there) : std::make_shared<MemoryDisk>()) {
    options.stored_prefix_bytes = bytes;
    options.on_loss = [this](const std::string& message) {
      const std::lock_guard lock(told_mutex);
      told += message;
    };
    Restart();
  }
  ~StoredHarness() override { store.reset(); }  // writes what waits

  void Restart() {
    Start(nullptr, std::make_unique<MemoryTier>(disk, /*shared=*/true));
    Begin();
  }

  int64_t Cached(const std::string& owner, const std::string& prompt) {
    return Ask(owner, prompt).usage.cached_tokens;
  }
  StoredPrefixStats stats() { return store->stats().stored_prefixes; }

  // Each stored prefix's bytes, which a test may change.
  std::vector<std::string*> Stored() {
    std::vector<std::string*> all;
    for (auto& [id, session] : disk->sessions) all.push_back(&session.versions.at(1));
    return all;
  }

  std::shared_ptr<MemoryDisk> disk;
  std::mutex told_mutex;
  std::string told;
};

TEST(StoredPrefixesTest, AnotherProcessBeginsWithWhatCameTwice) {
  StoredHarness h;
  const auto first = h.Ask("ann", kLong);
  h.Ask("ann", kLong);
  h.Restart();
  EXPECT_EQ(h.stats().prefixes, 1);
  const auto again = h.Ask("ann", kLong);
  EXPECT_EQ(again.usage.cached_tokens, 2 * kChunk);
  EXPECT_EQ(again.prefilled, 21 - 2 * kChunk);
  EXPECT_EQ(again.sample, first.sample);
  EXPECT_EQ(h.stats().hits, 1);
  EXPECT_EQ(h.Cached("ann", kLong), 2 * kChunk);
  EXPECT_EQ(h.stats().hits, 1) << "memory has it now";
  EXPECT_EQ(h.store->stats().prefix_hits, 2);
  EXPECT_EQ(h.store->stats().prefix_misses, 0);
}

TEST(StoredPrefixesTest, StoresNothingThatCameOnce) {
  StoredHarness h;
  h.Ask("ann", kLong);
  h.Ask("ann", kLonger);  // two chunks are the same
  h.Restart();
  EXPECT_EQ(h.disk->sessions.size(), 1u);
  EXPECT_EQ(h.Cached("ann", kLonger), 2 * kChunk);
}

TEST(StoredPrefixesTest, KeepsOwnersApartAndPromptsSecret) {
  StoredHarness h;
  for (int i = 0; i < 2; ++i) h.Ask("ann", kLong);
  h.Restart();
  EXPECT_EQ(h.Cached("bob", kLong), 0);
  EXPECT_EQ(h.Cached("ann", kLong), 2 * kChunk);
  for (const auto& [id, session] : h.disk->sessions) {
    EXPECT_EQ(session.record.creation_key.size(), 64u);
    EXPECT_FALSE(session.record.has_transcript);
  }
}

TEST(StoredPrefixesTest, AnotherScopeFindsNothing) {
  StoredHarness h;
  for (int i = 0; i < 2; ++i) h.Ask("", kLong);
  h.options.prefix_scope = "with keys";
  h.Restart();
  EXPECT_EQ(h.Cached("", kLong), 0);
  EXPECT_EQ(h.stats().refused, 0);
  EXPECT_EQ(h.disk->sessions.size(), 1u);
}

TEST(StoredPrefixesTest, ServesNothingThatIsDamaged) {
  StoredHarness h;
  const auto first = h.Ask("ann", kLong);
  h.Ask("ann", kLong);
  h.Restart();
  ASSERT_EQ(h.Stored().size(), 1u);
  const std::string whole = *h.Stored()[0];
  const std::map<std::string, SessionRecord> records = {
      {h.disk->sessions.begin()->first, h.disk->sessions.begin()->second.record}};
  const auto damage = [&](const std::string& bytes) {
    h.store.reset();
    h.disk->sessions.clear();
    for (const auto& [id, record] : records) {
      h.disk->sessions[id] = {.record = record, .whole = true, .versions = {{1, bytes}}};
    }
    h.Restart();
    ASSERT_EQ(h.stats().prefixes, 1);
    const auto again = h.Ask("ann", kLong);
    EXPECT_EQ(again.usage.cached_tokens, 0);
    EXPECT_EQ(again.prefilled, 21);
    EXPECT_EQ(again.sample, first.sample);
    EXPECT_EQ(h.stats().refused, 1);
    EXPECT_EQ(h.stats().hits, 0);
    EXPECT_TRUE(h.disk->sessions.empty());
    EXPECT_NE(h.told.find("a stored prefix is not used"), std::string::npos);
  };
  for (size_t at = 0; at < whole.size(); at += 41) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    damage(changed);
  }
  for (const size_t size : {size_t{0}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    damage(whole.substr(0, size));
  }
  // It is stored anew.
  h.Ask("ann", kLong);
  h.Restart();
  EXPECT_EQ(h.Cached("ann", kLong), 2 * kChunk);
}

TEST(StoredPrefixesTest, ServesNoOtherPrefixUnderItsName) {
  StoredHarness h;
  const std::string other = "ABCDEFGHIJKLMNOPQRSTU";
  for (int i = 0; i < 2; ++i) h.Ask("ann", kLong);
  for (int i = 0; i < 2; ++i) h.Ask("ann", other);
  h.Restart();
  {
    const std::lock_guard lock(h.disk->mutex);
    const auto stored = h.Stored();
    ASSERT_EQ(stored.size(), 2u);
    std::swap(*stored[0], *stored[1]);
  }
  EXPECT_EQ(h.Cached("ann", kLong), 0);
  EXPECT_EQ(h.Cached("ann", other), 0);
  EXPECT_EQ(h.stats().refused, 2);
}

TEST(StoredPrefixesTest, BeginsWithLessOfMemoryIfMoreIsDamaged) {
  StoredHarness h;
  for (int i = 0; i < 2; ++i) h.Ask("ann", kLong);
  const auto first = h.Ask("ann", kLonger);
  h.Ask("ann", kLonger);
  h.Restart();
  EXPECT_EQ(h.Cached("ann", kLong), 2 * kChunk);
  {
    const std::lock_guard lock(h.disk->mutex);
    for (std::string* bytes : h.Stored()) bytes->resize(bytes->size() - 1);
  }
  const auto again = h.Ask("ann", kLonger);
  EXPECT_EQ(again.usage.cached_tokens, 2 * kChunk);
  EXPECT_EQ(again.sample, first.sample);
}

TEST(StoredPrefixesTest, TheLeastRecentlyUsedMakesRoom) {
  StoredHarness h;
  const auto twice = [&](char c) {
    for (int i = 0; i < 2; ++i) h.Ask("ann", c + kLong);
  };
  const auto uses = [&](char c) {
    h.clock.Advance(absl::Seconds(20));
    h.Restart();
    return h.Cached("ann", c + kLong);
  };
  twice('a');
  h.Restart();
  h.options.stored_prefix_bytes = 2 * h.disk->Bytes() + 100;
  h.Restart();
  h.clock.Advance(absl::Seconds(20));
  twice('b');
  EXPECT_EQ(uses('a'), 16);
  EXPECT_EQ(uses('b'), 16);
  EXPECT_EQ(uses('a'), 16);  // later than b, in another process
  h.clock.Advance(absl::Seconds(20));
  h.Restart();
  twice('c');
  ASSERT_TRUE(Eventually([&] { return h.stats().evictions == 1; }));
  EXPECT_LE(h.stats().bytes, h.options.stored_prefix_bytes);
  EXPECT_EQ(uses('a'), 16);
  EXPECT_EQ(uses('c'), 16);
  EXPECT_EQ(uses('b'), 0);
}

TEST(StoredPrefixesTest, WhatDoesNotFitIsDropped) {
  StoredHarness h(10);
  for (int i = 0; i < 2; ++i) h.Ask("ann", kLong);
  ASSERT_TRUE(Eventually([&] { return h.stats().drops == 1; }));
  EXPECT_TRUE(h.disk->sessions.empty());
}

TEST(StoredPrefixesTest, WhatIsNotUsedEnds) {
  StoredHarness h;
  h.options.default_ttl = absl::Hours(1);
  for (int i = 0; i < 2; ++i) h.Ask("ann", kLong);
  h.Restart();
  h.clock.Advance(absl::Minutes(50));
  EXPECT_EQ(h.Cached("ann", kLong), 16);
  h.Restart();
  h.clock.Advance(absl::Minutes(50));
  EXPECT_EQ(h.Cached("ann", kLong), 16) << "the use before counts";
  h.Restart();
  h.clock.Advance(absl::Minutes(70));
  EXPECT_EQ(h.Cached("ann", kLong), 0);
}

TEST(StoredPrefixesTest, ComputesWhatTheTierCannotGive) {
  std::atomic<bool> away = false;  // outlives the store
  StoredHarness h;
  for (int i = 0; i < 2; ++i) h.Ask("ann", kLong);
  h.store.reset();
  h.disk->fail = [&](std::string_view) {
    return away ? absl::UnavailableError("it is away") : absl::OkStatus();
  };
  h.Restart();
  away = true;
  EXPECT_EQ(h.Cached("ann", kLong), 0);
  away = false;
  EXPECT_EQ(h.stats().refused, 0);
  EXPECT_EQ(h.disk->sessions.size(), 1u);
}

TEST(StoredPrefixesTest, ServersShareAndRemoveWhatTheyLike) {
  StoredHarness one;
  const auto first = one.Ask("ann", kLong);
  one.Ask("ann", kLong);
  one.Restart();
  StoredHarness two(kBytes, one.disk), three(kBytes, one.disk);
  EXPECT_EQ(two.Cached("ann", kLong), 16);
  {
    const std::lock_guard lock(one.disk->mutex);
    one.disk->sessions.clear();
  }
  const auto again = three.Ask("ann", kLong);
  EXPECT_EQ(again.usage.cached_tokens, 0);
  EXPECT_EQ(again.sample, first.sample);
  EXPECT_EQ(three.stats().refused, 0);
}

}  // namespace
}  // namespace tvq
