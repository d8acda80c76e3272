#include "models/runtime/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/models/runtime/random_weights.h"
#include "tests/models/runtime/safetensors_bytes.h"
#include "tests/models/runtime/temp_dir.h"

namespace tvq {
namespace {

using fixtures::SafetensorsBytes;
using fixtures::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Shape = std::vector<int64_t>;

std::string OneTensorFile(const std::string& name) {
  return SafetensorsBytes(
      "{\"" + name + R"(": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}})",
      std::string(8, '\0'));
}

std::span<const float> Floats(const HostTensor& tensor) {
  return {static_cast<const float*>(tensor.data), static_cast<size_t>(tensor.ElementCount())};
}

std::span<const float> Random(WeightSource& source, std::string_view name, const Shape& shape) {
  auto tensor = source.Get(name, shape);
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->dtype, HostDType::kF32);
  EXPECT_EQ(tensor->shape, shape);
  return Floats(*tensor);
}

double Rms(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

std::vector<float> AsFloats(HostDType dtype, const void* data, int64_t count) {
  auto values = ToFloat32({data, dtype, {count}});
  EXPECT_TRUE(values.ok()) << values.status();
  return *values;
}

TEST(WeightsTest, SingleFileGivesTensorsOfTheRightShapeOnly) {
  const TempDir dir;
  dir.Write("model.safetensors", OneTensorFile("w"));
  auto weights = OpenWeights(dir.path());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE((*weights)->Has("w"));
  EXPECT_FALSE((*weights)->Has("v"));
  EXPECT_TRUE((*weights)->Get("w", Shape{2, 1}).ok());

  const absl::Status shape = (*weights)->Get("w", Shape{1, 2}).status();
  EXPECT_EQ(shape.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(shape.message()),
              HasSubstr("model.safetensors: tensor \"w\" has shape [2, 1]; it must be [1, 2]"));
  const absl::Status rank = (*weights)->Get("w", Shape{2}).status();
  EXPECT_EQ(rank.code(), absl::StatusCode::kInvalidArgument);
  const absl::Status missing = (*weights)->Get("v", Shape{3}).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("has no tensor \"v\""));
}

TEST(WeightsTest, ShardsAreFoundThroughTheIndex) {
  const TempDir dir;
  dir.Write("s1.safetensors", OneTensorFile("a"));
  dir.Write("s2.safetensors", OneTensorFile("b"));
  dir.Write("model.safetensors.index.json",
            R"({"metadata": {"total_size": 16},
                "weight_map": {"a": "s1.safetensors", "b": "s2.safetensors"}})");
  auto weights = OpenWeights(dir.path());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE((*weights)->Get("a", Shape{2, 1}).ok());
  EXPECT_TRUE((*weights)->Get("b", Shape{2, 1}).ok());
}

TEST(WeightsTest, UnreadAreTheTensorsThatNobodyGot) {
  const TempDir dir;
  for (const char* name : {"a", "b", "c"}) {
    dir.Write(std::string(name) + ".safetensors", OneTensorFile(name));
  }
  dir.Write(
      "model.safetensors.index.json",
      R"({"weight_map": {"c": "c.safetensors", "b": "b.safetensors", "a": "a.safetensors"}})");
  auto weights = OpenWeights(dir.path());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_THAT((*weights)->Unread(), ElementsAre("a", "b", "c"));
  EXPECT_TRUE((*weights)->Get("b", Shape{2, 1}).ok());
  EXPECT_FALSE((*weights)->Get("a", Shape{1, 2}).ok());
  EXPECT_TRUE((*weights)->Has("a"));
  (*weights)->Digest();
  EXPECT_THAT((*weights)->Unread(), ElementsAre("a", "c"));
}

TEST(WeightsTest, IndexErrorsNameTensorAndShard) {
  const TempDir dir;
  EXPECT_EQ(OpenWeights(dir.path()).status().code(), absl::StatusCode::kNotFound);
  dir.Write("s1.safetensors", OneTensorFile("a"));
  const auto message = [&](std::string_view index) {
    dir.Write("model.safetensors.index.json", index);
    const absl::Status status = OpenWeights(dir.path()).status();
    EXPECT_FALSE(status.ok()) << index;
    return std::string(status.message());
  };
  EXPECT_THAT(message("{"), HasSubstr("index.json is not valid JSON"));
  EXPECT_THAT(message("{}"), HasSubstr("\"weight_map\""));
  EXPECT_THAT(message(R"({"weight_map": {"a": 1}})"), HasSubstr("shard of tensor \"a\""));
  EXPECT_THAT(message(R"({"weight_map": {"a": "../s1.safetensors"}})"),
              HasSubstr("is \"../s1.safetensors\"; it must be the plain name"));
  EXPECT_THAT(message(R"({"weight_map": {"a": "s3.safetensors"}})"), HasSubstr("s3.safetensors"));
  EXPECT_THAT(message(R"({"weight_map": {"b": "s1.safetensors"}})"),
              HasSubstr("says that tensor \"b\" is in"));
}

TEST(WeightsTest, ACorruptSingleFileIsNotPassedOverForTheIndex) {
  const TempDir dir;
  dir.Write("model.safetensors", "short");
  dir.Write("model.safetensors.index.json", R"({"weight_map": {}})");
  EXPECT_THAT(std::string(OpenWeights(dir.path()).status().message()), HasSubstr("has 5 bytes"));
}

TEST(ToFloat32Test, ConvertsEveryFloatingType) {
  const float singles[] = {0.0f, -1.25f, 1e-40f};
  EXPECT_THAT(AsFloats(HostDType::kF32, singles, 3), ElementsAre(0.0f, -1.25f, 1e-40f));
  const double doubles[] = {0.1, -3.0};
  EXPECT_THAT(AsFloats(HostDType::kF64, doubles, 2), ElementsAre(0.1f, -3.0f));
  const uint16_t brains[] = {0x3f80, 0xc049, 0x0001};
  EXPECT_THAT(AsFloats(HostDType::kBF16, brains, 3),
              ElementsAre(1.0f, -3.140625f, std::ldexp(1.0f, -133)));
  // 1, -2, the largest, the smallest normal, the smallest and the largest subnormal, -0.
  const uint16_t halves[] = {0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x83ff, 0x8000};
  const std::vector<float> expected = {1.0f,
                                       -2.0f,
                                       65504.0f,
                                       std::ldexp(1.0f, -14),
                                       std::ldexp(1.0f, -24),
                                       std::ldexp(-1023.0f, -24),
                                       -0.0f};
  EXPECT_EQ(AsFloats(HostDType::kF16, halves, 7), expected);
  const uint16_t not_finite[] = {0x7c00, 0xfc00, 0x7e00};
  const std::vector<float> special = AsFloats(HostDType::kF16, not_finite, 3);
  EXPECT_EQ(special[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ(special[1], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(special[2]));
}

TEST(ToFloat32Test, ReadsUnalignedData) {
  char bytes[9] = {};
  const float values[] = {2.5f, -7.0f};
  std::memcpy(bytes + 1, values, sizeof values);
  EXPECT_THAT(AsFloats(HostDType::kF32, bytes + 1, 2), ElementsAre(2.5f, -7.0f));
}

TEST(ToFloat32Test, RefusesIntegers) {
  const int32_t value = 1;
  const absl::Status status = ToFloat32({&value, HostDType::kI32, {1}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("dtype is I32"));
}

TEST(CheckFiniteTest, NamesTensorAndIndex) {
  std::vector<float> values(10'000, 1.0f);
  EXPECT_TRUE(CheckFinite("w", values).ok());
  EXPECT_TRUE(CheckFinite("w", {}).ok());
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    values[9'999] = bad;
    const absl::Status status = CheckFinite("layers.0.u", values);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"layers.0.u\""));
    EXPECT_THAT(std::string(status.message()), HasSubstr("index 9999"));
  }
}

TEST(RandomWeightsTest, AreAFunctionOfSeedNameAndShape) {
  auto first = RandomWeights(7);
  auto again = RandomWeights(7);
  auto other = RandomWeights(8);
  const Shape shape = {4, 8};
  const auto a = Random(*first, "layers.0.q_proj.weight", shape);
  Random(*again, "layers.1.q_proj.weight", shape);  // the order of calls does not matter
  const auto b = Random(*again, "layers.0.q_proj.weight", shape);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
  const auto c = Random(*other, "layers.0.q_proj.weight", shape);
  const auto d = Random(*first, "layers.1.q_proj.weight", shape);
  EXPECT_FALSE(std::equal(a.begin(), a.end(), c.begin()));
  EXPECT_FALSE(std::equal(a.begin(), a.end(), d.begin()));
  EXPECT_EQ(Random(*first, "layers.0.q_proj.weight", shape).data(), a.data());
  EXPECT_EQ(Random(*first, "layers.0.q_proj.weight", {2, 2}).size(), 4);
  EXPECT_EQ(a[0], Random(*first, "layers.0.q_proj.weight", shape)[0]);  // still there
}

TEST(RandomWeightsTest, HaveTheSizeOfTrainedWeights) {
  auto source = RandomWeights(1);
  // The rms of n normal values deviates by about (2n)^(-1/2): 0.3% here; 2% is six of those.
  EXPECT_NEAR(Rms(Random(*source, "layers.3.o_proj.weight", {200, 256})) * 16, 1.0, 0.02);
  EXPECT_NEAR(Rms(Random(*source, "layers.3.codebook.sum", {2, 200, 256})) * 4, 1.0, 0.02);
  EXPECT_NEAR(Rms(Random(*source, "layers.3.u", {200, 256})) / 0.02, 1.0, 0.02);
  const auto projection = Random(*source, "layers.3.o_proj.weight", {200, 256});
  double mean = 0;
  for (const float value : projection) mean += value;
  mean /= static_cast<double>(projection.size());
  EXPECT_LT(std::abs(mean) * 16, 6 / std::sqrt(200.0 * 256.0));
  EXPECT_THAT(Random(*source, "layers.3.norm.weight", {2}), ElementsAre(1.0f, 1.0f));
  EXPECT_THAT(Random(*source, "norm.weight", {1}), ElementsAre(1.0f));
  EXPECT_THAT(Random(*source, "layers.3.norm.bias", {2}), ElementsAre(0.0f, 0.0f));
  EXPECT_THAT(Random(*source, "lm_head.bias", {1}), ElementsAre(0.0f));
  EXPECT_THAT(Random(*source, "layers.3.codebook.count", {1, 2}), ElementsAre(1.0f, 1.0f));
}

}  // namespace
}  // namespace tvq
