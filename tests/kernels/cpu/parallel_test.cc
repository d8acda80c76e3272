#include "kernels/cpu/parallel.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace tvq {
namespace {

TEST(TaskColumnsTest, TilesAreEqualAndCoverAll) {
  for (const int threads : {1, 2, 3, 5}) {
    for (int64_t values : {1, 24, 64, 100, 768, 1536, 1600, 6144}) {
      for (int64_t most : {int64_t{768}, int64_t{2048}}) {
        const int64_t columns = TaskColumns(1, values, threads, most);
        EXPECT_EQ(columns % kColumnStep, 0);
        EXPECT_LE(columns, std::max(kColumnStep, most));
        const int64_t tiles = (values + columns - 1) / columns;
        EXPECT_TRUE(tiles >= threads || columns == kColumnStep)
            << values << " in tiles of " << columns;
        EXPECT_GT(values, (tiles - 1) * columns);
      }
    }
  }
}

}  // namespace
}  // namespace tvq
