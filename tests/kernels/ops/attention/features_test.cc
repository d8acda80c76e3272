#include "kernels/ops/attention/features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

constexpr FeatureMap kWithRows[] = {FeatureMap::kSoftAssignment, FeatureMap::kPositive};

// Heads of x, key/value heads, rows of a table.
struct FeaturesShape {
  int64_t tokens, heads, kv_heads, key, features;
};

// Own and shared tables; sizes of one, of no whole vector, of several and a bit.
constexpr FeaturesShape kFeaturesShapes[] = {{0, 2, 1, 4, 5},    {1, 1, 1, 1, 1},
                                             {3, 4, 2, 7, 13},   {70, 3, 1, 16, 33},
                                             {2, 2, 2, 33, 272}, {9, 6, 3, 64, 16}};

// Queries or keys of the length that layers give them, K^(1/4), and rows as models have them.
struct FeaturesInputs {
  FeaturesInputs(const FeaturesShape& s, FeatureMap map_, float sigma_ = 0.4F)
      : shape(s),
        map(map_),
        sigma(sigma_),
        x(RandomFloats(s.tokens * s.heads * s.key, 1, Scale())) {
    rows = RandomFloats(s.kv_heads * s.features * s.key, 2,
                        map == FeatureMap::kSoftAssignment ? Scale() : 1);
  }

  float Scale() const { return std::pow(static_cast<float>(shape.key), -0.25F); }
  int64_t width() const { return map == FeatureMap::kEluPlusOne ? shape.key : shape.features; }

  // Positions [first, first + count).
  std::vector<float> Run(Device& device, int64_t first, int64_t count) const {
    const int64_t per_token = shape.heads * shape.key;
    const std::span<const float> part(x.data() + first * per_token,
                                      static_cast<size_t>(count * per_token));
    const DeviceArray<float> in(device, part);
    const DeviceArray<float> out(
        device, std::vector<float>(static_cast<size_t>(count * shape.heads * width()), NAN));
    std::optional<HeadKeys> table;
    if (map != FeatureMap::kEluPlusOne) {
      table = PackKeys(device, rows, {shape.kv_heads, shape.features, shape.key});
    }
    const absl::Status status = Features(device, {map,
                                                  {in.data(), {count, shape.heads, shape.key}},
                                                  table ? &*table : nullptr,
                                                  sigma,
                                                  {out.data(), {count, shape.heads, width()}}});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return out.Read();
  }
  std::vector<float> Run(Device& device) const { return Run(device, 0, shape.tokens); }

  FeaturesShape shape;
  FeatureMap map;
  float sigma;
  std::vector<float> x, rows;
};

// Of one head: what rounding may do to what is exponentiated, row by row, and to the sum that
// divides it.
struct HeadBound {
  std::vector<double> exponent;
  double total = 0;
};

// A dot product of K terms is off by gamma_K of their sizes; so is |x|^2. Half norms are rounded
// once; the difference of two numbers once, and of the largest exponent likewise; with sigma, its
// square, the quotient and the product are rounded.
HeadBound BoundOf(const FeaturesInputs& in, const float* x, const float* rows,
                  const float* shares) {
  const int64_t key = in.shape.key;
  HeadBound bound;
  std::vector<double> value, error;
  double square = 0;
  for (int64_t i = 0; i < key; ++i) square += double{x[i]} * x[i];
  for (int64_t s = 0; s < in.shape.features; ++s) {
    double dot = 0, size = 0, half = 0;
    for (int64_t i = 0; i < key; ++i) {
      const double r = rows[s * key + i];
      dot += x[i] * r;
      size += std::abs(x[i] * r);
      half += r * r / 2;
    }
    if (in.map == FeatureMap::kSoftAssignment) {
      value.push_back(dot - half);
      error.push_back(Gamma(key) * size + 2 * kRounding * half + kRounding * std::abs(dot - half));
    } else {
      value.push_back(dot - square / 2);
      error.push_back(Gamma(key) * (size + square / 2) + kRounding * std::abs(value.back()));
    }
  }
  const bool positive = in.map == FeatureMap::kPositive;
  const double most = positive ? 0 : *std::max_element(value.begin(), value.end());
  const double most_error = positive ? 0 : *std::max_element(error.begin(), error.end());
  const bool shared = in.map == FeatureMap::kSoftAssignment;
  const double variance = shared ? double{in.sigma} * in.sigma : 1;
  for (size_t s = 0; s < value.size(); ++s) {
    const double below = std::abs(value[s] - most);
    bound.exponent.push_back((error[s] + most_error + (shared ? 5 : 1) * kRounding * below) /
                             variance);
    if (shared) bound.total += shares[s] * bound.exponent.back();
  }
  // The shares' sum, and their quotient by it.
  if (shared) bound.total += (static_cast<double>(value.size()) + 6) * kRounding;
  return bound;
}

class FeaturesTest : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam());
    device_ = MakeTestDevice(GetParam());
  }

  void ExpectBitsOfAHeadAlone(FeatureMap map) {
    const std::unique_ptr<Device> one_thread = MakeTestDevice(GetParam(), 1);
    const FeaturesShape shape{90, 4, 2, 20, 70};
    const FeaturesInputs in(shape, map);
    const std::vector<float> all = in.Run(*device_);
    EXPECT_EQ(in.Run(*one_thread), all);
    for (const int64_t row : {int64_t{0}, int64_t{41}, shape.tokens - 1}) {
      const std::vector<float> alone = in.Run(*device_, row, 1);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                             all.begin() + row * static_cast<int64_t>(alone.size())));
    }
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeTestDevice("reference");
};

// Of the map that needs no rows, which CUDA has, too.
class EluPlusOneTest : public FeaturesTest {};

// The exponential itself is good to 2e-7, which is less than 4 roundings.
TEST_P(FeaturesTest, AgreeWithTheReference) {
  for (const FeaturesShape& shape : kFeaturesShapes) {
    for (const FeatureMap map : kWithRows) {
      const FeaturesInputs in(shape, map);
      const std::vector<float> got = in.Run(*device_), want = in.Run(*reference_);
      ASSERT_EQ(got.size(), want.size());
      for (int64_t head = 0; head < shape.tokens * shape.heads; ++head) {
        const int64_t group = head % shape.heads / (shape.heads / shape.kv_heads);
        const size_t first = static_cast<size_t>(head * shape.features);
        const HeadBound bound =
            BoundOf(in, in.x.data() + head * shape.key,
                    in.rows.data() + group * shape.features * shape.key, want.data() + first);
        for (size_t s = 0; s < bound.exponent.size(); ++s) {
          const double relative = std::expm1(bound.exponent[s] + bound.total) + 4 * kRounding;
          ASSERT_NEAR(got[first + s], want[first + s],
                      relative * want[first + s] + std::numeric_limits<float>::min())
              << "map " << static_cast<int>(map) << ", head " << head << ", row " << s;
        }
      }
    }
  }
}

TEST_P(EluPlusOneTest, IsPositiveAndAccurate) {
  for (const FeaturesShape& shape : kFeaturesShapes) {
    FeaturesInputs in(shape, FeatureMap::kEluPlusOne);
    for (size_t i = 0; i < in.x.size(); ++i) in.x[i] *= i % 3 == 0 ? 40.0F : 1.0F;
    const std::vector<float> got = in.Run(*device_);
    for (size_t i = 0; i < got.size(); ++i) {
      const double x = in.x[i], want = x > 0 ? x + 1 : std::exp(x);
      ASSERT_NEAR(got[i], want, 4 * kRounding * want + std::numeric_limits<float>::min()) << x;
    }
  }
}

TEST_P(EluPlusOneTest, AHeadsBitsDependOnThatHeadAlone) {
  ExpectBitsOfAHeadAlone(FeatureMap::kEluPlusOne);
}

TEST_P(FeaturesTest, AHeadsBitsDependOnThatHeadAlone) {
  for (const FeatureMap map : kWithRows) ExpectBitsOfAHeadAlone(map);
}

// The limit of a small sigma: all of a key belongs to the code that VqAssign finds.
TEST_P(FeaturesTest, AVerySmallSigmaIsHardAssignment) {
  const FeaturesShape shape{60, 3, 3, 12, 37};
  for (const float sigma : {1e-4F, 1e-15F}) {
    const FeaturesInputs in(shape, FeatureMap::kSoftAssignment, sigma);
    const HeadKeys table = PackKeys(*device_, in.rows, {shape.kv_heads, shape.features, shape.key});
    std::vector<int32_t> codes(static_cast<size_t>(shape.tokens * shape.heads));
    ASSERT_TRUE(VqAssign(*device_, {{in.x.data(), {shape.tokens, shape.heads, shape.key}},
                                    &table,
                                    {codes.data(), {shape.tokens, shape.heads}}})
                    .ok());
    std::vector<float> hard(codes.size() * static_cast<size_t>(shape.features));
    for (size_t i = 0; i < codes.size(); ++i) {
      hard[i * static_cast<size_t>(shape.features) + static_cast<size_t>(codes[i])] = 1;
    }
    EXPECT_EQ(in.Run(*device_), hard);
  }
}

TEST_P(FeaturesTest, AVeryLargeSigmaSharesEqually) {
  const FeaturesShape shape{5, 2, 1, 8, 40};
  const FeaturesInputs in(shape, FeatureMap::kSoftAssignment, 1e15F);
  for (const float share : in.Run(*device_)) ASSERT_NEAR(share, 1.0 / 40, 50 * kRounding / 40);
}

INSTANTIATE_TEST_SUITE_P(Devices, EluPlusOneTest, ::testing::ValuesIn(AllDevices()), kCaseName);
INSTANTIATE_TEST_SUITE_P(Isa, FeaturesTest, ::testing::ValuesIn(CpuDevices()), kCaseName);

TEST(FeaturesCheckTest, NamesWhatIsWrong) {
  const auto cpu = MakeTestDevice("cpu");
  std::vector<float> x(12), out(15), rows(15, 1.0F);
  const HeadKeys table = PackKeys(*cpu, rows, {1, 5, 3});
  FeaturesArgs args{
      FeatureMap::kSoftAssignment, {x.data(), {1, 3, 3}}, &table, 0.5F, {out.data(), {1, 3, 5}}};
  EXPECT_TRUE(Features(*cpu, args).ok());
  const auto problem = [&](const auto& change) {
    FeaturesArgs wrong = args;
    change(wrong);
    return std::string(Features(*cpu, wrong).message());
  };
  EXPECT_EQ(problem([](auto& a) { a.sigma = 0; }),
            "Features: sigma is 0, expected above 0 and finite");
  EXPECT_EQ(problem([](auto& a) { a.rows = nullptr; }), "Features: rows are missing");
  EXPECT_EQ(problem([](auto& a) { a.x.shape = {1, 3, 4}; }),
            "Features: x is [1,3,4], expected [1,3,3]");
  EXPECT_EQ(problem([](auto& a) { a.out.shape = {1, 3, 4}; }),
            "Features: out is [1,3,4], expected [1,3,5]");
  EXPECT_EQ(problem([](auto& a) { a.map = FeatureMap::kEluPlusOne; }),
            "Features: rows are expected null: elu has none");
  const auto cuda = MakeCudaStandIn("forwards");
  EXPECT_EQ(Features(*cuda, args).ToString(),
            "UNIMPLEMENTED: Features: the backend 'cuda' computes elu + 1, not soft assignment");
  args.map = FeatureMap::kPositive;
  EXPECT_EQ(Features(*cuda, args).ToString(),
            "UNIMPLEMENTED: Features: the backend 'cuda' computes elu + 1, not positive random "
            "features");
}

}  // namespace
}  // namespace tvq
