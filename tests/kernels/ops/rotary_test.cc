#include "kernels/ops/rotary.h"

#include <cmath>

#include "gmock/gmock.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

// A row that has been projected has q [heads, key], k [kv_heads, key] and v [kv_heads, value].
struct HeadShape {
  int64_t heads, kv_heads, key, value, turned;

  int64_t width() const { return (heads + kv_heads) * key + kv_heads * value; }
};

struct Turned {
  std::vector<float> q, k, v;
};

class RotaryTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam());
    device_ = MakeTestDevice(GetParam());
  }

  static std::vector<float> Angles(Device& device, const std::vector<int64_t>& positions,
                                   const std::vector<float>& frequencies) {
    const auto rows = std::ssize(positions), half = std::ssize(frequencies);
    const DeviceArray<int64_t> at(device, positions);
    const DeviceArray<float> by(device, frequencies);
    const DeviceArray<float> out(
        device, std::vector<float>(positions.size() * 2 * frequencies.size(), NAN));
    const absl::Status status = RotaryAngles(
        device, {{at.data(), {rows}}, {by.data(), {half}}, {out.data(), {rows, 2 * half}}});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return out.Read();
  }

  static Turned Heads(Device& device, const HeadShape& shape, const std::vector<float>& projected,
                      const std::vector<float>& angles, const std::vector<float>& gains,
                      float scale = 0.5F) {
    const int64_t rows = std::ssize(projected) / shape.width();
    const auto [heads, kv_heads, key, value, turned] = shape;
    const auto room = [&](int64_t count) {
      return std::vector<float>(static_cast<size_t>(rows * count), NAN);
    };
    const DeviceArray<float> in(device, projected), at(device, angles), gain(device, gains);
    const DeviceArray<float> q(device, room(heads * key)), k(device, room(kv_heads * key)),
        v(device, room(kv_heads * value));
    RotaryHeadsArgs args;
    args.projected = {in.data(), {rows, shape.width()}};
    if (!gains.empty()) {
      args.q_gain = {gain.data(), {key}};
      args.k_gain = {gain.data() + key, {key}};
    }
    args.epsilon = 1e-5F;
    args.scale = scale;
    args.angles = {at.data(), {rows, turned}};
    args.q = {q.data(), {rows, heads, key}};
    args.k = {k.data(), {rows, kv_heads, key}};
    args.v = {v.data(), {rows, kv_heads, value}};
    const absl::Status status = RotaryHeads(device, args);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return {q.Read(), k.Read(), v.Read()};
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeDevice("reference").value();
};

// Angles are the same float32 numbers, their functions but for the rounding of float64's.
TEST_P(RotaryTest, AnglesAgreeWithTheReferenceFarOut) {
  const std::vector<int64_t> positions = {0, 1, 2, 255, 8000, 100'000, 10'000'000, 134'217'727};
  const std::vector<float> frequencies = {1, 0.7498942F, 0.1F, 1.3e-3F, 1e-5F};
  const std::vector<float> out = Angles(*device_, positions, frequencies);
  const std::vector<float> expected = Angles(*reference_, positions, frequencies);
  ASSERT_EQ(out.size(), expected.size());
  for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 0x1p-24) << i;
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[frequencies.size()], 0);
  EXPECT_EQ(Angles(*device_, {}, frequencies).size(), 0U);
}

// Of a turned pair two products and a sum are rounded, then the scale: 4 roundings of at most the
// pair's length; the norm of a head adds half of gamma_(K+2) and four.
TEST_P(RotaryTest, HeadsAgreeWithTheReference) {
  const HeadShape shapes[] = {{9, 3, 64, 64, 64},    {2, 2, 16, 24, 16}, {6, 2, 20, 8, 8},
                              {4, 1, 128, 128, 128}, {3, 3, 6, 5, 6},    {1, 1, 7, 3, 0}};
  for (const HeadShape& shape : shapes) {
    for (const int64_t rows : {1, 5, 70}) {
      for (const bool normed : {false, true}) {
        const std::vector<float> x = RandomFloats(rows * shape.width(), 1, 3);
        std::vector<int64_t> positions;
        for (int64_t n = 0; n < rows; ++n) positions.push_back(n * n * 37);
        std::vector<float> frequencies;
        for (int64_t i = 0; i < shape.turned / 2; ++i) {
          frequencies.push_back(std::pow(0.3F, static_cast<float>(i)));
        }
        const std::vector<float> angles = Angles(*reference_, positions, frequencies);
        const std::vector<float> gains =
            normed ? RandomFloats(2 * shape.key, 2) : std::vector<float>();
        const Turned out = Heads(*device_, shape, x, angles, gains);
        const Turned expected = Heads(*reference_, shape, x, angles, gains);
        EXPECT_EQ(out.v, expected.v);
        const auto check = [&](const std::vector<float>& found, const std::vector<float>& wanted) {
          for (size_t head = 0; head < wanted.size(); head += static_cast<size_t>(shape.key)) {
            float largest = 0;
            for (size_t i = 0; i < static_cast<size_t>(shape.key); ++i) {
              largest = std::max(largest, std::abs(wanted[head + i]));
            }
            const double bound = std::sqrt(2.0) * largest * Gamma(normed ? shape.key + 12 : 6);
            for (size_t i = 0; i < static_cast<size_t>(shape.key); ++i) {
              ASSERT_NEAR(found[head + i], wanted[head + i], bound)
                  << "key " << shape.key << " " << i;
            }
          }
        };
        check(out.q, expected.q);
        check(out.k, expected.k);
      }
    }
  }
}

TEST_P(RotaryTest, ARowsBitsDependOnThatRowAlone) {
  const HeadShape shape{6, 2, 48, 32, 32};
  const int64_t rows = 40;
  const std::vector<float> x = RandomFloats(rows * shape.width(), 1);
  const std::vector<float> angles = RandomFloats(rows * shape.turned, 2);
  const std::vector<float> gains = RandomFloats(2 * shape.key, 3);
  const Turned all = Heads(*device_, shape, x, angles, gains);
  for (int64_t n = 0; n < rows; ++n) {
    const auto row = [&](const std::vector<float>& of, int64_t width) {
      return std::vector<float>(of.begin() + n * width, of.begin() + (n + 1) * width);
    };
    const Turned alone =
        Heads(*device_, shape, row(x, shape.width()), row(angles, shape.turned), gains);
    ASSERT_EQ(alone.q, row(all.q, shape.heads * shape.key)) << n;
    ASSERT_EQ(alone.k, row(all.k, shape.kv_heads * shape.key)) << n;
  }
}

// What rotary positions are for: a score is that of the distance.
TEST_P(RotaryTest, ScoresDependOnDistancesAlone) {
  const HeadShape shape{1, 1, 32, 1, 32};
  std::vector<float> frequencies;
  for (int i = 0; i < 16; ++i) frequencies.push_back(std::pow(10.0F, static_cast<float>(-i) / 4));
  const std::vector<float> row = RandomFloats(shape.width(), 7);
  const auto score = [&](int64_t query, int64_t key) {
    std::vector<float> x = row;
    x.insert(x.end(), row.begin(), row.end());
    const Turned turned =
        Heads(*device_, shape, x, Angles(*device_, {query, key}, frequencies), {}, 1);
    double sum = 0;
    for (size_t i = 0; i < 32; ++i) sum += static_cast<double>(turned.q[i]) * turned.k[32 + i];
    return sum;
  };
  // Each turn is off by at most half an ulp of an angle below 4,106, the frequency 1 not at all.
  double squares = 0;
  for (size_t i = 0; i < 32; ++i) squares += std::abs(row[i] * row[32 + i]);
  EXPECT_NEAR(score(10, 3), score(4'106, 4'099), 4 * squares * 4'106 * 0x1p-24);
  EXPECT_GT(std::abs(score(10, 3) - score(10, 4)), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(All, RotaryTest, testing::ValuesIn(AllDevices()), kCaseName);

TEST(RotaryChecksTest, NameTheArgument) {
  const auto device = MakeDevice("cpu", 1).value();
  std::vector<float> x(64);
  RotaryHeadsArgs args{.projected = {x.data(), {1, 12}},
                       .angles = {x.data(), {1, 6}},
                       .q = {x.data(), {1, 1, 4}},
                       .k = {x.data(), {1, 1, 4}},
                       .v = {x.data(), {1, 1, 4}}};
  EXPECT_EQ(
      RotaryHeads(*device, args).ToString(),
      "INVALID_ARGUMENT: RotaryHeads: angles has 6 columns, expected an even number up to the "
      "4 of a head");
  args.angles = {x.data(), {1, 4}};
  args.projected = {x.data(), {1, 11}};
  EXPECT_EQ(
      RotaryHeads(*device, args).ToString(),
      "INVALID_ARGUMENT: RotaryHeads: projected has 11 columns, expected at least 12 from 0 on");
}

}  // namespace
}  // namespace tvq
