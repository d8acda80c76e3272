#include "base/memory_return.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tvq {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(ReturnRuleTest, AsksWhenMuchWasFreedAndIsNotInUseAgain) {
  ReturnRule rule;
  EXPECT_FALSE(rule.Look(5 * kMiB));
  EXPECT_FALSE(rule.Look(100 * kMiB));
  EXPECT_TRUE(rule.Look(100 * kMiB));
}

TEST(ReturnRuleTest, WhatIsInUseAgainAtTheNextLookIsKept) {
  ReturnRule rule;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(rule.Look(100 * kMiB));
    EXPECT_FALSE(rule.Look(20 * kMiB));
  }
}

TEST(ReturnRuleTest, DoesNotAskAgainForWhatTheSystemHas) {
  ReturnRule rule;
  rule.Look(100 * kMiB);
  ASSERT_TRUE(rule.Look(100 * kMiB));
  rule.Returned(100 * kMiB);  // the allocator counts it on
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(rule.Look(100 * kMiB));
}

TEST(ReturnRuleTest, AsksForWhatWasUsedAndFreedSince) {
  ReturnRule rule;
  rule.Returned(100 * kMiB);
  EXPECT_FALSE(rule.Look(20 * kMiB)) << "80 MiB are in use";
  EXPECT_FALSE(rule.Look(90 * kMiB));
  EXPECT_TRUE(rule.Look(90 * kMiB));
}

TEST(ReturnRuleTest, LittleIsNotWorthAsking) {
  ReturnRule rule;
  rule.Returned(100 * kMiB);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(rule.Look(131 * kMiB));
}

}  // namespace
}  // namespace tvq
