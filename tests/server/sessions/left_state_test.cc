// How long a state that a request left counts as its owner's.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

TEST(LeftStateTest, AStateIsItsRequestsUntilItIsReadOrCommitted) {
  StoreHarness h;
  const auto claim = std::make_shared<int>();
  auto end = h.Compute(std::nullopt, "text");
  ASSERT_TRUE(end.ok()) << end.status();
  end->claim = claim;
  const auto stream = h.store->ToSnapshot("fake", *std::move(end));
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_TRUE((*stream)->Next(100).ok());
  EXPECT_EQ(claim.use_count(), 2) << "the rest is still to be read";
  ASSERT_TRUE((*stream)->Next((*stream)->total_bytes()).ok());
  EXPECT_EQ(claim.use_count(), 1);

  auto lease = h.store->Acquire({.id = h.Create()});
  ASSERT_TRUE(lease.ok()) << lease.status();
  auto next = h.Compute((*lease)->Start(), "text");
  ASSERT_TRUE(next.ok()) << next.status();
  next->claim = claim;
  ASSERT_TRUE((*lease)->Commit(*std::move(next), "").ok());
  EXPECT_EQ(claim.use_count(), 1) << "the session's state can be moved";
}

}  // namespace
}  // namespace tvq
