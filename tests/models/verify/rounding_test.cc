#include "models/verify/rounding.h"

#include <gtest/gtest.h>

#include <vector>

namespace tvq::verify {
namespace {

ModelInfo Info(DType dtype, DType state_dtype) {
  ModelInfo info;
  info.dtype = dtype;
  info.state_dtype = state_dtype;
  info.weight_rounding = 0x1p-8;
  info.products = 6;
  info.kept = 3;
  return info;
}

double Squares(DType dtype, DType state_dtype, Weights weights) {
  const double bound = RoundingBound(Info(dtype, state_dtype), weights);
  return bound * bound / 4;
}

constexpr DType kF = DType::kFloat32, kB = DType::kBFloat16, kI = DType::kInt8, kI4 = DType::kInt4;

TEST(RoundingTest, CountsThePlacesOfThreeGatedUnits) {
  const double place = 0x1p-18, int8 = 0x1p-16;
  const double near = place * 1e-9;
  EXPECT_EQ(RoundingBound(Info(kF, kF), Weights::kExact), 0);
  EXPECT_NEAR(Squares(kF, kB, Weights::kExact), 3 * place, near);
  EXPECT_NEAR(Squares(kB, kF, Weights::kSame), 7 * place, near);
  EXPECT_NEAR(Squares(kB, kF, Weights::kExact), 15 * place, near);
  EXPECT_NEAR(Squares(kB, kB, Weights::kExact), 18 * place, near);
  EXPECT_NEAR(Squares(kI, kB, Weights::kSame), 10 * place, near);
  EXPECT_NEAR(Squares(kI, kB, Weights::kExact), 10 * place + 8 * int8, near);
  EXPECT_EQ(Squares(kI4, kB, Weights::kExact), Squares(kI, kB, Weights::kExact));
}

TEST(RoundingTest, CountsTheFactorsThatAPromptRounds) {
  ModelInfo info = Info(kF, kF);
  info.factors = 6;
  EXPECT_EQ(RoundingBound(info, Weights::kSame), 0);
  info.dtype = kB;
  EXPECT_DOUBLE_EQ(RoundingBound(info, Weights::kSame), 2 * std::sqrt(7.0 + 6) / 512);
}

TEST(RoundingTest, CountsThePlacesThatTf32Cuts) {
  EXPECT_DOUBLE_EQ(Tf32Bound(6), 2 * std::sqrt(14.0) / 1024);
}

TEST(RoundingTest, CountsWhatReducedReadsMayReadOtherwise) {
  ModelInfo info = Info(kF, kF);
  EXPECT_EQ(ReadsBound(info), 0);
  info.reads.int8 = true;
  EXPECT_DOUBLE_EQ(ReadsBound(info), 2 * std::sqrt(3.0) / 127);
  info.reads.skip_mass = 0.25;
  EXPECT_DOUBLE_EQ(ReadsBound(info), 2 * std::sqrt(3.0) * (1.0 / 127 + 0.5 / 0.75));
}

TEST(RoundingTest, SpreadIsWithinRows) {
  const std::vector<float> rows = {1, 3, 10, 14};
  EXPECT_DOUBLE_EQ(Spread(std::span<const float>(rows), 2), std::sqrt((1 + 1 + 4 + 4) / 4.0));
}

}  // namespace
}  // namespace tvq::verify
