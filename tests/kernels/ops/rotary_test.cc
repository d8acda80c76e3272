#include "kernels/ops/rotary.h"

#include <algorithm>
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

// What queries for far keys and for the sink are turned by, [rows, turned] and [turned].
struct FarTurns {
  std::vector<float> angles, sink;
};

struct Turned {
  std::vector<float> q, k, v;
  std::vector<float> q_far, q_sink, k_plain;
};

class RotaryTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam());
    device_ = MakeTestDevice(GetParam());
  }

  static std::vector<float> Angles(Device& device, const std::vector<int64_t>& positions,
                                   const std::vector<float>& frequencies, bool exact = false) {
    const auto rows = std::ssize(positions), half = std::ssize(frequencies);
    const DeviceArray<int64_t> at(device, positions);
    const DeviceArray<float> by(device, frequencies);
    const DeviceArray<float> out(
        device, std::vector<float>(positions.size() * 2 * frequencies.size(), NAN));
    const absl::Status status = RotaryAngles(
        device, {{at.data(), {rows}}, {by.data(), {half}}, {out.data(), {rows, 2 * half}}, exact});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return out.Read();
  }

  // Rows of `projected` have `column` numbers ahead of the heads' and as many behind them.
  static Turned Heads(Device& device, const HeadShape& shape, const std::vector<float>& projected,
                      const std::vector<float>& angles, const std::vector<float>& gains,
                      float scale = 0.5F, int64_t column = 0, const FarTurns& far = {}) {
    const int64_t columns = shape.width() + 2 * column;
    const int64_t rows = std::ssize(projected) / columns;
    const auto [heads, kv_heads, key, value, turned] = shape;
    const auto room = [&](int64_t count) {
      return std::vector<float>(static_cast<size_t>(rows * count), NAN);
    };
    const DeviceArray<float> in(device, projected), at(device, angles), gain(device, gains);
    const DeviceArray<float> q(device, room(heads * key)), k(device, room(kv_heads * key)),
        v(device, room(kv_heads * value));
    const DeviceArray<float> far_at(device, far.angles), sink_at(device, far.sink);
    const DeviceArray<float> q_far(device, room(heads * key)), q_sink(device, room(heads * key)),
        k_plain(device, room(kv_heads * key));
    RotaryHeadsArgs args;
    args.projected = {in.data(), {rows, columns}};
    args.column = column;
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
    if (!far.angles.empty()) {
      args.far_angles = {far_at.data(), {rows, turned}};
      args.q_far = {q_far.data(), {rows, heads, key}};
      args.k_plain = {k_plain.data(), {rows, kv_heads, key}};
    }
    if (!far.sink.empty()) {
      args.sink_angles = {sink_at.data(), {turned}};
      args.q_sink = {q_sink.data(), {rows, heads, key}};
    }
    const absl::Status status = RotaryHeads(device, args);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return {q.Read(), k.Read(), v.Read(), q_far.Read(), q_sink.Read(), k_plain.Read()};
  }

  // Of a turned pair two products and a sum are rounded, then the scale: 4 roundings of at most the
  // pair's length; the norm of a head adds half of gamma_(K+2) and four.
  static void ExpectHeads(const std::vector<float>& found, const std::vector<float>& wanted,
                          int64_t key, bool normed) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t head = 0; head < wanted.size(); head += static_cast<size_t>(key)) {
      float largest = 0;
      for (size_t i = 0; i < static_cast<size_t>(key); ++i) {
        largest = std::max(largest, std::abs(wanted[head + i]));
      }
      const double bound = std::sqrt(2.0) * largest * Gamma(normed ? key + 12 : 6);
      for (size_t i = 0; i < static_cast<size_t>(key); ++i) {
        ASSERT_NEAR(found[head + i], wanted[head + i], bound) << "key " << key << " " << i;
      }
    }
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

// The product of a position below 2^29 and a frequency is a float64 number.
TEST_P(RotaryTest, ExactAnglesAreThoseOfThePosition) {
  const std::vector<int64_t> positions = {0, 1, 8001, 10'000'001, 134'217'727, 536'870'911};
  const std::vector<float> frequencies = {1, 0.7498942F, 0.1F, 1.3e-3F, 1e-5F};
  const size_t half = frequencies.size();
  const std::vector<float> out = Angles(*device_, positions, frequencies, true);
  const std::vector<float> rounded = Angles(*device_, positions, frequencies);
  double farthest = 0;
  for (size_t n = 0; n < positions.size(); ++n) {
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(positions[n]) * frequencies[i];
      const size_t at = n * 2 * half + i;
      EXPECT_NEAR(out[at], std::cos(angle), kRounding) << positions[n] << " " << i;
      EXPECT_NEAR(out[at + half], std::sin(angle), kRounding) << positions[n] << " " << i;
      farthest = std::max(farthest, std::abs(rounded[at] - std::cos(angle)));
    }
  }
  EXPECT_GT(farthest, 0.1);
}

TEST_P(RotaryTest, PositionRowsStayWithinTheTable) {
  const auto rows = [&](const std::vector<int64_t>& positions, int64_t table_rows) {
    constexpr int64_t kColumns = 70;
    const std::vector<float> table = RandomFloats(table_rows * kColumns, 1);
    const auto count = std::ssize(positions);
    const DeviceArray<int64_t> at(*device_, positions);
    const DeviceArray<float> from(*device_, table);
    const DeviceArray<float> out(*device_, std::vector<float>(positions.size() * kColumns, NAN));
    const absl::Status status =
        PositionRows(*device_, {.positions = {at.data(), {count}},
                                .first = 100,
                                .table = {from.data(), {table_rows, kColumns}},
                                .out = {out.data(), {count, kColumns}}});
    EXPECT_TRUE(status.ok()) << status.ToString();
    // The number of each row in the table, -1 of one that is not there.
    const std::vector<float> found = out.Read();
    std::vector<int64_t> numbers;
    for (auto row = found.begin(); row != found.end(); row += kColumns) {
      const auto same = std::search(table.begin(), table.end(), row, row + kColumns);
      numbers.push_back(same == table.end() ? -1 : (same - table.begin()) / kColumns);
    }
    return numbers;
  };
  EXPECT_THAT(rows({0, 99, 100, 101, 103, 104, 105, 1'000'000'000'000}, 5),
              testing::ElementsAre(0, 0, 0, 1, 3, 4, 4, 4));
  EXPECT_THAT(rows({7, 100, 101}, 1), testing::ElementsAre(0, 0, 0));
  EXPECT_THAT(rows({}, 5), testing::IsEmpty());
}

TEST_P(RotaryTest, HeadsAgreeWithTheReference) {
  const HeadShape shapes[] = {{9, 3, 64, 64, 64},    {2, 2, 16, 24, 16}, {6, 2, 20, 8, 8},
                              {4, 1, 128, 128, 128}, {3, 3, 6, 5, 6},    {1, 1, 7, 3, 0}};
  for (const HeadShape& shape : shapes) {
    for (const int64_t rows : {1, 5, 70}) {
      for (const bool normed : {false, true}) {
        const std::vector<float> x = RandomFloats(rows * shape.width(), 1, 3);
        std::vector<int64_t> positions;
        positions.reserve(static_cast<size_t>(rows));
        for (int64_t n = 0; n < rows; ++n) positions.push_back(n * n * 37);
        std::vector<float> frequencies;
        frequencies.reserve(static_cast<size_t>(shape.turned / 2));
        for (int64_t i = 0; i < shape.turned / 2; ++i) {
          frequencies.push_back(std::pow(0.3F, static_cast<float>(i)));
        }
        const std::vector<float> angles = Angles(*reference_, positions, frequencies);
        const std::vector<float> gains =
            normed ? RandomFloats(2 * shape.key, 2) : std::vector<float>();
        const Turned out = Heads(*device_, shape, x, angles, gains);
        const Turned expected = Heads(*reference_, shape, x, angles, gains);
        EXPECT_EQ(out.v, expected.v);
        ExpectHeads(out.q, expected.q, shape.key, normed);
        ExpectHeads(out.k, expected.k, shape.key, normed);
      }
    }
  }
}

// Heads amid other columns, with all that layers take for far keys beside q, k and v, which stay
// the same to the bit, and with all but what is for the sink. Turns for far keys have any length.
TEST_P(RotaryTest, HeadsForFarKeysAgreeWithTheReference) {
  const HeadShape shapes[] = {{9, 3, 64, 64, 64}, {2, 1, 12, 5, 12}, {6, 2, 20, 8, 8}};
  constexpr int64_t kRows = 5, kColumn = 3;
  for (const HeadShape& shape : shapes) {
    for (const bool normed : {false, true}) {
      const int64_t columns = shape.width() + 2 * kColumn;
      const std::vector<float> x = RandomFloats(kRows * columns, 1, 3);
      std::vector<float> alone;
      for (int64_t n = 0; n < kRows; ++n) {
        const auto first = x.begin() + n * columns + kColumn;
        alone.insert(alone.end(), first, first + shape.width());
      }
      const std::vector<float> angles = RandomFloats(kRows * shape.turned, 2);
      const FarTurns far{RandomFloats(kRows * shape.turned, 3), RandomFloats(shape.turned, 4)};
      const std::vector<float> gains =
          normed ? RandomFloats(2 * shape.key, 5) : std::vector<float>();
      const Turned out = Heads(*device_, shape, x, angles, gains, 0.25F, kColumn, far);
      const Turned expected = Heads(*reference_, shape, x, angles, gains, 0.25F, kColumn, far);
      const Turned near = Heads(*device_, shape, alone, angles, gains, 0.25F);
      EXPECT_EQ(out.q, near.q);
      EXPECT_EQ(out.k, near.k);
      EXPECT_EQ(out.v, near.v);
      ExpectHeads(out.q, expected.q, shape.key, normed);
      ExpectHeads(out.q_far, expected.q_far, shape.key, normed);
      ExpectHeads(out.q_sink, expected.q_sink, shape.key, normed);
      ExpectHeads(out.k_plain, expected.k_plain, shape.key, normed);
      if (!normed) EXPECT_EQ(out.k_plain, expected.k_plain);
      EXPECT_TRUE(std::isnan(near.q_far[0]) && std::isnan(near.k_plain[0]));
      const Turned without_sink =
          Heads(*device_, shape, x, angles, gains, 0.25F, kColumn, {far.angles, {}});
      EXPECT_EQ(without_sink.q_far, out.q_far);
      EXPECT_EQ(without_sink.k_plain, out.k_plain);
      EXPECT_TRUE(std::isnan(without_sink.q_sink[0]));
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
  frequencies.reserve(16);
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
