#include "base/memory_return.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tvq {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(ReturnRuleTest, AsksWhenMuchWasFreedAndIsNotInUseAgain) {
  ReturnRule rule;
  EXPECT_FALSE(rule.Look({.free = 5 * kMiB}));
  EXPECT_FALSE(rule.Look({.free = 100 * kMiB}));
  EXPECT_TRUE(rule.Look({.free = 100 * kMiB}));
}

TEST(ReturnRuleTest, WhatIsInUseAgainAtTheNextLookIsKept) {
  ReturnRule rule;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(rule.Look({.free = 100 * kMiB}));
    EXPECT_FALSE(rule.Look({.free = 20 * kMiB}));
  }
}

TEST(ReturnRuleTest, DoesNotAskAgainForWhatTheSystemHas) {
  ReturnRule rule;
  rule.Look({.free = 100 * kMiB});
  ASSERT_TRUE(rule.Look({.free = 100 * kMiB}));
  rule.Returned({.free = 100 * kMiB});  // the allocator counts it on
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(rule.Look({.free = 100 * kMiB}));
}

TEST(ReturnRuleTest, AsksForWhatWasUsedAndFreedSince) {
  ReturnRule rule;
  rule.Returned({.free = 100 * kMiB});
  EXPECT_FALSE(rule.Look({.free = 20 * kMiB})) << "80 MiB are in use";
  EXPECT_FALSE(rule.Look({.free = 90 * kMiB}));
  EXPECT_TRUE(rule.Look({.free = 90 * kMiB}));
}

TEST(ReturnRuleTest, AsksForWhatWasUsedAndFreedBetweenTwoLooks) {
  ReturnRule rule;
  rule.Returned({.free = 100 * kMiB, .resident = 30 * kMiB});
  EXPECT_FALSE(rule.Look({.free = 100 * kMiB, .resident = 60 * kMiB})) << "too little";
  EXPECT_FALSE(rule.Look({.free = 100 * kMiB, .resident = 90 * kMiB}));
  EXPECT_TRUE(rule.Look({.free = 100 * kMiB, .resident = 90 * kMiB}));
}

TEST(ReturnRuleTest, AProcessMayGrowThatHasLittleFree) {
  ReturnRule rule;
  rule.Returned({.free = 20 * kMiB, .resident = 30 * kMiB});
  for (int i = 1; i < 100; ++i) EXPECT_FALSE(rule.Look({.free = 20 * kMiB, .resident = i * kMiB}));
}

TEST(ReturnRuleTest, LittleIsNotWorthAsking) {
  ReturnRule rule;
  rule.Returned({.free = 100 * kMiB});
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(rule.Look({.free = 131 * kMiB}));
}

}  // namespace
}  // namespace tvq
