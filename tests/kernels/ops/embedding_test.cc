#include "kernels/ops/embedding.h"

#include <cmath>

#include "gmock/gmock.h"
#include "kernels/bfloat16.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

class EmbeddingTest : public testing::TestWithParam<OpCase> {
 protected:
  // The table in the dtype of the case.
  const void* Table(int64_t vocab, int64_t width) {
    values_ = RandomFloats(vocab * width, 1);
    halves_.clear();
    for (float value : values_) halves_.push_back(ToBFloat16(value));
    if (GetParam().dtype == DType::kFloat32) return values_.data();
    return halves_.data();
  }

  std::unique_ptr<Device> device_ = MakeDevice("cpu", 2, GetParam().isa).value();
  std::unique_ptr<Device> reference_ = MakeDevice("reference").value();
  std::vector<float> values_;
  std::vector<BFloat16> halves_;
};

TEST_P(EmbeddingTest, CopiesRows) {
  for (const int64_t width : {1, 6, 33, 768}) {
    const std::vector<int32_t> ids = {4, 0, 9, 4};
    std::vector<float> out(4 * static_cast<size_t>(width));
    std::vector<float> expected(out.size());
    EmbeddingArgs args{.table = Table(10, width),
                       .dtype = GetParam().dtype,
                       .vocab = 10,
                       .ids = {ids.data(), {4}},
                       .out = {out.data(), {4, width}}};
    ASSERT_TRUE(Embedding(*device_, args).ok());
    args.out.data = expected.data();
    ASSERT_TRUE(Embedding(*reference_, args).ok());
    EXPECT_EQ(out, expected);
  }
}

// Angles are float64 on both sides; they differ by the two ways to compute lam^(2c/D), a few 1e-16
// relative, which a position of 1e7 turns into 1e-8. What remains: rounding sine, product and sum.
TEST_P(EmbeddingTest, AddsTheSinusoid) {
  for (const int64_t rows : {1, 5, 40}) {
    const int64_t width = 34;
    const float scale = 0.75F;
    std::vector<int32_t> ids(static_cast<size_t>(rows), 3);
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < rows; ++i) positions.push_back(i * i * 6131);
    std::vector<float> out(static_cast<size_t>(rows * width));
    std::vector<float> expected(out.size());
    EmbeddingArgs args{.table = Table(5, width),
                       .dtype = GetParam().dtype,
                       .vocab = 5,
                       .ids = {ids.data(), {rows}},
                       .positions = {positions.data(), {rows}},
                       .position_scale = scale,
                       .position_lam = 1000,
                       .out = {out.data(), {rows, width}}};
    ASSERT_TRUE(Embedding(*device_, args).ok());
    args.out.data = expected.data();
    ASSERT_TRUE(Embedding(*reference_, args).ok());
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected[i], 1e-8 + Gamma(4) * (scale + std::abs(expected[i]))) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmbeddingTest, testing::ValuesIn(AllOpCases()), OpCaseName);

TEST(EmbeddingChecksTest, NameTheArgument) {
  for (const char* name : {"cpu", "reference"}) {
    const auto device = MakeDevice(name, 1).value();
    std::vector<float> table(12);
    std::vector<float> out(12);
    std::vector<int32_t> ids = {1, -1};
    EmbeddingArgs args{
        .table = table.data(), .vocab = 4, .ids = {ids.data(), {2}}, .out = {out.data(), {2, 3}}};
    EXPECT_EQ(std::string(Embedding(*device, args).message()),
              "Embedding: ids[1] is -1, expected 0 to 3");
    ids[1] = 4;
    EXPECT_EQ(std::string(Embedding(*device, args).message()),
              "Embedding: ids[1] is 4, expected 0 to 3");
    ids[1] = 3;
    EXPECT_TRUE(Embedding(*device, args).ok());
    args.position_scale = 1;
    EXPECT_EQ(Embedding(*device, args).code(), absl::StatusCode::kInvalidArgument);
    args.out = {out.data(), {2, 2}};
    EXPECT_EQ(std::string(Embedding(*device, args).message()),
              "Embedding: positions is [0], expected [2]");
  }
}

}  // namespace
}  // namespace tvq
