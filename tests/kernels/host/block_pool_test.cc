#include "kernels/host/block_pool.h"

#include <absl/base/config.h>
#include <gtest/gtest.h>
#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cpu/huge_pages.h"

namespace tvq {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(BlockPoolTest, HandsOutTheLatestFreedBlockOfItsSize) {
  BlockPool pool(HugePageSource());
  const BlockPool::Block a = pool.Take(4 * kMiB), b = pool.Take(4 * kMiB);
  for (const BlockPool::Block& block : {a, b}) {
    const auto* bytes = static_cast<const uint8_t*>(block.data);
    EXPECT_TRUE(block.fresh);
    EXPECT_TRUE(std::all_of(bytes, bytes + 4 * kMiB, [](uint8_t v) { return v == 0; }));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data) % kHugePage, 0U);
  }
  std::memset(a.data, 1, 4 * kMiB);
  pool.Give(a.data, 4 * kMiB);
  pool.Give(b.data, 4 * kMiB);
  EXPECT_EQ(pool.kept_bytes(), 8 * kMiB);
  for (void* expected : {b.data, a.data}) {
    const BlockPool::Block again = pool.Take(4 * kMiB);
    EXPECT_EQ(again.data, expected);
    EXPECT_FALSE(again.fresh);
  }
  EXPECT_EQ(pool.kept_bytes(), 0U);
  pool.Give(a.data, 4 * kMiB);
  pool.Give(b.data, 4 * kMiB);
}

// A budget over the blocks in use is one over all memory of the pool, whatever the sizes.
TEST(BlockPoolTest, NeverHoldsMoreThanWasOnceInUse) {
  BlockPool pool(HugePageSource());
  std::mt19937 random(1);
  std::vector<std::pair<void*, size_t>> in_use;
  size_t used = 0, peak = 0;
  for (int step = 0; step < 3000; ++step) {
    // Phases that take more than they give, and the other way round, of sizes that shift.
    const bool take = random() % 100 < (step / 100 % 2 == 0 ? 70 : 30);
    if (take && used < 64 * kMiB) {
      const size_t size = (2 + (random() % 3 + static_cast<size_t>(step) / 300) % 5) * kMiB;
      in_use.emplace_back(pool.Take(size).data, size);
      used += size;
      peak = std::max(peak, used);
    } else if (!in_use.empty()) {
      std::swap(in_use[random() % in_use.size()], in_use.back());
      pool.Give(in_use.back().first, in_use.back().second);
      used -= in_use.back().second;
      in_use.pop_back();
    }
    ASSERT_LE(used + pool.kept_bytes(), peak) << step;
  }
  EXPECT_GT(pool.kept_bytes(), 0U);
  for (const auto& [data, size] : in_use) pool.Give(data, size);
}

TEST(BlockPoolTest, NoTwoOwnersHaveABlockAtOnce) {
  BlockPool pool(HugePageSource());
  std::vector<std::thread> owners;
  owners.reserve(4);
  for (int owner = 0; owner < 4; ++owner) {
    owners.emplace_back([&pool, owner] {
      for (int round = 0; round < 300; ++round) {
        const size_t size = (2 + static_cast<size_t>(round + owner) % 2) * kMiB;
        auto* const block = static_cast<int*>(pool.Take(size).data);
        int* const last = block + size / sizeof(int) - 1;
        *block = *last = owner;
        std::this_thread::yield();
        EXPECT_EQ(*block, owner);
        EXPECT_EQ(*last, owner);
        pool.Give(block, size);
      }
    });
  }
  for (std::thread& owner : owners) owner.join();
}

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
TEST(BlockPoolTest, KeptBlocksArePoisoned) {
  BlockPool pool(HugePageSource());
  const BlockPool::Block block = pool.Take(2 * kMiB);
  auto* const last = static_cast<uint8_t*>(block.data) + 2 * kMiB - 1;
  EXPECT_FALSE(__asan_address_is_poisoned(last));
  pool.Give(block.data, 2 * kMiB);
  EXPECT_TRUE(__asan_address_is_poisoned(block.data));
  EXPECT_TRUE(__asan_address_is_poisoned(last));
  ASSERT_EQ(pool.Take(2 * kMiB).data, block.data);
  EXPECT_FALSE(__asan_address_is_poisoned(last));
  pool.Give(block.data, 2 * kMiB);
}
#endif

}  // namespace
}  // namespace tvq
