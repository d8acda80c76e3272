#include "server/sessions/record/token_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace tvq {
namespace {

TEST(TokenLogTest, KeepsIdsInOrderOverManyAppends) {
  std::vector<int32_t> expected(20'000);
  std::iota(expected.begin(), expected.end(), 0);
  TokenLog log;
  size_t at = 0;
  for (size_t length = 0; at < expected.size(); length = length % 700 + 37) {
    const size_t count = std::min(length, expected.size() - at);
    log.Append(std::span(expected).subspan(at, count));
    at += count;
  }
  EXPECT_EQ(log.Ids(), expected);
  for (const int64_t first : {0, 1, 4095, 4096, 9999, 19'999, 20'000}) {
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{5000}, 20'000 - first}) {
      const int64_t there = std::min(count, 20'000 - first);
      const auto window =
          std::span(expected).subspan(static_cast<size_t>(first), static_cast<size_t>(there));
      EXPECT_TRUE(std::ranges::equal(log.Ids(first, there), window)) << first << ", " << there;
    }
  }
  EXPECT_EQ(log.size(), 20'000);
}

TEST(TokenLogTest, BeginsAsAnyOfItsBeginnings) {
  TokenLog log;
  std::vector<int32_t> expected;
  for (int32_t i = 0; i < 5; ++i) {
    const std::vector<int32_t> piece(3000, i);
    log.Append(piece);
    expected.insert(expected.end(), piece.begin(), piece.end());
  }
  for (const int64_t count : {0, 1, 5999, 6000, 6001, 14'999, 15'000}) {
    TokenLog first = log.First(count);
    EXPECT_EQ(first.size(), count);
    first.Append(std::vector<int32_t>{7});
    std::vector<int32_t> ids(expected.begin(), expected.begin() + count);
    ids.push_back(7);
    EXPECT_EQ(first.Ids(), ids);
  }
  EXPECT_EQ(log.Ids(), expected);
}

TEST(TokenLogTest, CopiesGoTheirOwnWays) {
  TokenLog log;
  log.Append(std::vector<int32_t>{1, 2});
  TokenLog copy = log;
  copy.Append(std::vector<int32_t>{3});
  log.Append(std::vector<int32_t>{4, 5});
  EXPECT_EQ(copy.Ids(), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(log.Ids(), (std::vector<int32_t>{1, 2, 4, 5}));
}

}  // namespace
}  // namespace tvq
