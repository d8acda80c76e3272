#include "models/runtime/matrix_survey.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/numbers/bfloat16.h"

namespace tvq {
namespace {

const std::unique_ptr<Device>& TwoThreads() {
  static const auto device = MakeDevice("cpu", 2).value();
  return device;
}

MatrixSurvey Survey(const HostMatrix& matrix, DType dtype) {
  return SurveyMatrix(*TwoThreads(), matrix, dtype);
}

TEST(MatrixSurveyTest, FindsTheLargestWhereverItIs) {
  const int64_t in = 300, out = 700;  // several tasks
  std::vector<float> values(static_cast<size_t>(in * out), 0.5F);
  for (const size_t at : {size_t{0}, size_t{70'001}, values.size() - 1}) {
    for (const float value : {-3.0F, INFINITY, std::numeric_limits<float>::quiet_NaN()}) {
      values[at] = value;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt8, DType::kInt4}) {
        const float largest = Survey({values.data(), out, in}, dtype).largest;
        EXPECT_TRUE(std::isfinite(value) ? largest == 3 : !std::isfinite(largest)) << at;
      }
    }
    values[at] = 0.5F;
  }
}

TEST(MatrixSurveyTest, GivesInt8TheScalesOfItsRows) {
  const std::vector<float> values = {1, -254, 3, 0, 0, 0};
  EXPECT_EQ(Survey({values.data(), 2, 3}, DType::kInt8).scales, (std::vector<float>{2, 1}));
  EXPECT_TRUE(Survey({values.data(), 2, 3}, DType::kInt4).scales.empty());
  const int8_t q[] = {1, 2, 3, 4};
  const float own[] = {0.25F, 5};
  EXPECT_EQ(Survey({q, 2, 2, DType::kInt8, own}, DType::kInt8).scales,
            (std::vector<float>{0.25F, 5}));
}

TEST(MatrixSurveyTest, RoundingIsHalfAStepOverTheRootMeanSquare) {
  // Rows 2 (3, 4) and 0: errors at most 1 and 1, squares 36 and 64; zeros were zeros.
  const int8_t q[] = {3, 4, 0, 0};
  const float scales[] = {2, 1};
  EXPECT_DOUBLE_EQ(Survey({q, 2, 2, DType::kInt8, scales}, DType::kInt8).rounding.Relative(),
                   std::sqrt(2.0 / 100));
  EXPECT_EQ(Survey({q + 2, 1, 2, DType::kInt8, scales}, DType::kInt8).rounding.Relative(), 0);
  // What the square of a float32 cannot hold.
  const std::vector<float> large(40, 1e30F);
  EXPECT_NEAR(Survey({large.data(), 1, 40}, DType::kInt8).rounding.Relative(), 0.5 / 127, 1e-8);
  EXPECT_EQ(Survey({large.data(), 1, 40}, DType::kFloat32).rounding.Relative(), 0);
}

}  // namespace
}  // namespace tvq
