#include "kernels/ops/embedding.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "kernels/numbers/bfloat16.h"
#include "tests/kernels/int8_matrix.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

class EmbeddingTest : public testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam().device);
    device_ = MakeTestDevice(GetParam().device);
  }

  // A random table [vocab, width] in the dtype of the case; `args` says the rest but memory.
  std::vector<float> Run(Device& device, EmbeddingArgs args, const std::vector<int32_t>& ids,
                         const std::vector<int64_t>& positions, int64_t width) const {
    const std::vector<float> table = RandomFloats(args.vocab * width, 1);
    std::vector<BFloat16> halves(table.size());
    std::transform(table.begin(), table.end(), halves.begin(), ToBFloat16);
    const Int8Matrix quantized = QuantizeRows(table, args.vocab);
    const auto rows = static_cast<int64_t>(ids.size());
    const DeviceArray<float> wide(device, table);
    const DeviceArray<BFloat16> narrow(device, halves);
    const DeviceArray<int8_t> bytes(device, quantized.values);
    const DeviceArray<float> scales(device, quantized.scales);
    const DeviceArray<int32_t> id(device, ids);
    const DeviceArray<int64_t> position(device, positions);
    const DeviceArray<float> out(device,
                                 std::vector<float>(static_cast<size_t>(rows * width), NAN));
    args.dtype = GetParam().dtype;
    args.table = args.dtype == DType::kFloat32    ? static_cast<const void*>(wide.data())
                 : args.dtype == DType::kBFloat16 ? static_cast<const void*>(narrow.data())
                                                  : static_cast<const void*>(bytes.data());
    if (args.dtype == DType::kInt8) args.scales = {scales.data(), {args.vocab}};
    args.ids = {id.data(), {rows}};
    args.positions = {position.data(), {static_cast<int64_t>(positions.size())}};
    args.out = {out.data(), {rows, width}};
    const absl::Status status = Embedding(device, args);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return out.Read();
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeDevice("reference").value();
};

TEST_P(EmbeddingTest, CopiesRows) {
  for (const int64_t width : {1, 6, 33, 768}) {
    const EmbeddingArgs args{.vocab = 10};
    EXPECT_EQ(Run(*device_, args, {4, 0, 9, 4}, {}, width),
              Run(*reference_, args, {4, 0, 9, 4}, {}, width));
  }
}

// Angles are float64 on both sides; they differ by the two ways to compute lam^(2c/D), a few 1e-16
// relative, which a position of 1e7 turns into 1e-8. What remains: rounding sine, product and sum.
TEST_P(EmbeddingTest, AddsTheSinusoid) {
  for (const int64_t rows : {1, 5, 40}) {
    const int64_t width = 34;
    const float scale = 0.75F;
    const std::vector<int32_t> ids(static_cast<size_t>(rows), 3);
    std::vector<int64_t> positions(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) positions[static_cast<size_t>(i)] = i * i * 6131;
    const EmbeddingArgs args{.vocab = 5, .position_scale = scale, .position_lam = 1000};
    const std::vector<float> out = Run(*device_, args, ids, positions, width);
    const std::vector<float> expected = Run(*reference_, args, ids, positions, width);
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected[i], 1e-8 + Gamma(4) * (scale + std::abs(expected[i]))) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmbeddingTest, testing::ValuesIn(WeightOpCases()), kCaseName);

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
    args.dtype = DType::kInt8;
    EXPECT_EQ(std::string(Embedding(*device, args).message()),
              "Embedding: scales is [0], expected [4]");
    args.dtype = DType::kInt4;
    EXPECT_EQ(std::string(Embedding(*device, args).message()),
              "Embedding: table is int4, expected float32, bfloat16 or int8");
    args.dtype = DType::kFloat32;
    args.position_scale = 1;
    EXPECT_EQ(Embedding(*device, args).code(), absl::StatusCode::kInvalidArgument);
    args.out = {out.data(), {2, 2}};
    EXPECT_EQ(std::string(Embedding(*device, args).message()),
              "Embedding: positions is [0], expected [2]");
  }
}

}  // namespace
}  // namespace tvq
