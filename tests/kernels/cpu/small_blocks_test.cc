#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/huge_pages.h"

namespace tvq {
namespace {

uintptr_t AddressOf(const Buffer& block) { return reinterpret_cast<uintptr_t>(block.data()); }

TEST(SmallBlocksTest, BlocksLieSideBySideInAHugePage) {
  SmallBlocks blocks;
  const Buffer first = blocks.Take(100);
  const Buffer second = blocks.Take(3000);
  const Buffer third = blocks.Take(1);
  EXPECT_EQ(AddressOf(first) % kHugePage, 0U);
  EXPECT_EQ(AddressOf(second) - AddressOf(first), 192U);
  EXPECT_EQ(AddressOf(third) - AddressOf(second), 3072U);
}

TEST(SmallBlocksTest, NoBlockIsUsedAgain) {
  SmallBlocks blocks;
  const Buffer kept = blocks.Take(4096);
  std::memset(blocks.Take(4096).data(), 0xff, 4096);
  const Buffer next = blocks.Take(4096);
  const auto* data = next.as<uint8_t>();
  EXPECT_TRUE(std::all_of(data, data + 4096, [](uint8_t b) { return b == 0; }));
}

TEST(SmallBlocksTest, BlocksOfAllMappingsOutliveThem) {
  std::vector<Buffer> taken;
  {
    SmallBlocks blocks;
    // More than a mapping has.
    for (int i = 0; i < 40; ++i) taken.push_back(blocks.Take(kHugePage));
  }
  for (size_t i = 0; i < taken.size(); ++i) {
    ASSERT_EQ(AddressOf(taken[i]) % 64, 0U);
    std::memset(taken[i].data(), static_cast<int>(i), 1000);
  }
  for (size_t i = 0; i < taken.size(); ++i) {
    EXPECT_EQ(taken[i].as<uint8_t>()[999], i);
    taken[i] = Buffer();
  }
}

}  // namespace
}  // namespace tvq
