#include "kernels/ops/philox.h"

#include <gtest/gtest.h>

namespace tvq {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers published with Random123 (kat_vectors, philox4x32 10).
TEST(PhiloxTest, GivesThePublishedAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, EveryArgumentMatters) {
  constexpr uint64_t kHigh = uint64_t{1} << 40;
  const double draw = DrawUniform(1, 2, 3);
  for (const double other :
       {DrawUniform(2, 2, 3), DrawUniform(1, 3, 3), DrawUniform(1, 2, 4),
        DrawUniform(1 + kHigh, 2, 3), DrawUniform(1, 2 + kHigh, 3), DrawUniform(1, 2, 3 + kHigh)}) {
    EXPECT_NE(draw, other);
  }
}

TEST(PhiloxTest, UniformLiesInTheUnitInterval) {
  double sum = 0;
  constexpr int kDraws = 100000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double u = DrawUniform(7, 0, i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  // Five standard errors of the mean of a uniform number.
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * 0.2887 / 316);
}

}  // namespace
}  // namespace tvq
