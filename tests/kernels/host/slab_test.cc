#include "kernels/host/slab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace tvq {
namespace {

TEST(SlabTest, PartsOfOneSizeFillItInWhateverOrderTheyComeAndGo) {
  constexpr size_t kSize = 3 * Slab::kAlignment, kParts = 10;
  Slab slab(kParts * kSize + Slab::kAlignment);
  std::mt19937 random(1);
  std::vector<size_t> taken;
  for (int round = 0; round < 200; ++round) {
    while (taken.size() < kParts) {
      const auto begin = slab.Take(kSize);
      ASSERT_TRUE(begin.has_value()) << taken.size();
      EXPECT_EQ(std::count(taken.begin(), taken.end(), *begin), 0);
      EXPECT_EQ(*begin % Slab::kAlignment, 0U);
      EXPECT_LE(*begin, (kParts - 1) * kSize + Slab::kAlignment);
      taken.push_back(*begin);
    }
    EXPECT_FALSE(slab.Take(kSize).has_value());
    std::shuffle(taken.begin(), taken.end(), random);
    for (size_t given = 1 + random() % kParts; given > 0; --given) {
      slab.Give(taken.back(), kSize);
      taken.pop_back();
    }
  }
}

// However parts of different sizes came and went, all of it is one gap again at the end.
TEST(SlabTest, GapsThatTouchBecomeOne) {
  constexpr size_t kBytes = 4096;
  Slab slab(kBytes);
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<size_t, size_t>> taken;
    while (true) {
      const size_t size = 1 + random() % 700;
      const auto begin = slab.Take(size);
      if (!begin) break;
      for (const auto& [other, other_size] : taken) {
        EXPECT_TRUE(*begin + size <= other || other + other_size <= *begin);
      }
      taken.emplace_back(*begin, size);
    }
    std::shuffle(taken.begin(), taken.end(), random);
    for (const auto& [begin, size] : taken) slab.Give(begin, size);
    const auto all = slab.Take(kBytes);
    ASSERT_EQ(all, 0U);
    slab.Give(*all, kBytes);
  }
}

TEST(SlabTest, TheSmallestGapThatFitsIsUsed) {
  Slab slab(1024);
  const size_t first = *slab.Take(256), second = *slab.Take(64), third = *slab.Take(128);
  const size_t last = *slab.Take(64);
  slab.Give(first, 256);
  slab.Give(third, 128);
  EXPECT_EQ(slab.Take(128), third);
  EXPECT_EQ(slab.Take(192), first);
  slab.Give(second, 64);
  slab.Give(last, 64);
  EXPECT_FALSE(slab.Take(1024).has_value());
  EXPECT_FALSE(Slab(10).Take(1).has_value());
}

}  // namespace
}  // namespace tvq
