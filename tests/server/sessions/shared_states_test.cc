// States of which parts are sealed: versions, marks, forks and prefixes have them together.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

// 1,000 bytes and 1,000 a token, sealed 16 tokens at a time.
constexpr FakeOptions kPages{.max_position = 100, .bytes_per_token = 1000, .page_tokens = 16};
const std::string kText(60, 'x');
constexpr int64_t kSealed = 48'000, kOwn = 61'000 - kSealed;  // of a state of kText

// What is there, each thing once.
void ExpectUsed(StoreHarness& h, int64_t bytes) {
  EXPECT_TRUE(Eventually([&] { return h.engine->budget().used() == bytes; }))
      << h.engine->budget().used() << " instead of " << bytes;
  EXPECT_EQ(h.store->stats().device.state_bytes, bytes);
}

TEST(SharedStatesTest, VersionsMarksAndForksCountOnceWhatTheyShare) {
  StoreHarness h({.host_bytes = 10'000'000}, kPages);
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, kText).ok());
  ExpectUsed(h, kSealed + kOwn);
  ASSERT_TRUE(h.store->Mark(call, "m").ok());
  const auto forks = h.store->Fork(call, {.count = 3});
  ASSERT_TRUE(forks.ok()) << forks.status();
  ExpectUsed(h, kSealed + kOwn);
  // Each goes its own way, by one token.
  std::string tail = "a";
  for (const SessionView& fork : *forks) {
    ASSERT_TRUE(h.Append({.id = fork.record.id}, tail).ok());
    ++tail[0];
  }
  ExpectUsed(h, kSealed + kOwn + 3 * (kOwn + 1000));
  // What the mark has stays as long as the last that has it.
  ASSERT_TRUE(h.Append(call, "yyyy").ok());
  ExpectUsed(h, kSealed + 16'000 + kOwn + 3 * (kOwn + 1000) + 1000);
  ASSERT_TRUE(h.store->Unmark(call, "m").ok());
  ASSERT_TRUE(h.store->Delete(call).ok());
  ExpectUsed(h, kSealed + 3 * (kOwn + 1000));
  h.ExpectHolds({.id = forks->back().record.id}, kText + "c");
  for (const SessionView& fork : *forks) {
    ASSERT_TRUE(h.store->Delete({.id = fork.record.id}).ok());
  }
  ExpectUsed(h, 0);
}

TEST(SharedStatesTest, ARequestOnASessionGivesBackWhatItShares) {
  StoreHarness h({.host_bytes = 10'000'000}, kPages);
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, kText).ok());
  const auto lease = h.store->Acquire(call);
  const auto held = h.Working((*lease)->Start(), 10);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->share.bytes(), h.model->StateBytes(70) - kSealed);
  EXPECT_EQ(h.engine->budget().used(), h.model->StateBytes(70) + kOwn);
}

// Out of host memory once, it is there for all.
TEST(SharedStatesTest, AStateThatComesBackIsSharedAgain) {
  EngineOptions engine = SmallOptions();
  StoreHarness h({.host_bytes = 10'000'000}, kPages, engine);
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, kText).ok());
  const auto forks = h.store->Fork(call, {.count = 2});
  const auto move_out = [&] {
    h.engine->budget().ReportShortage(engine.state_memory_bytes);
    return Eventually([&] { return h.engine->budget().used() == 0; });
  };
  ASSERT_TRUE(move_out());
  // The shortage is over when something has come back.
  (void)h.engine->budget().TryReserve(1);
  for (const SessionView& fork : *forks) {
    h.ExpectHolds({.id = fork.record.id}, kText);
    ExpectUsed(h, kSealed + kOwn);
  }
  EXPECT_EQ(h.store->stats().restores, 1);
  ASSERT_TRUE(move_out()) << "its image lies in host memory still";
}

}  // namespace
}  // namespace tvq
