#include "kernels/ops/attention/head_scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

struct HeadShape {
  int64_t rows, heads, key_heads, keys, width;
};

// One row and many; tails of rows, of panels and of groups of panels; shared and own key heads.
constexpr HeadShape kHeadShapes[] = {
    {1, 1, 1, 512, 128}, {1, 1, 1, 1, 1},     {3, 3, 3, 17, 5},    {7, 4, 2, 100, 24},
    {2, 3, 1, 65, 33},   {65, 1, 1, 513, 16}, {200, 2, 1, 40, 8},  {5, 6, 3, 31, 128},
    {9, 2, 1, 40, 300},  {37, 2, 2, 70, 64},  {18, 1, 1, 33, 256},
};

struct Data {
  explicit Data(const HeadShape& s)
      : shape(s),
        x(RandomFloats(s.rows * s.heads * s.width, 1)),
        keys(RandomFloats(s.key_heads * s.keys * s.width, 2)) {}

  HeadKeys Pack(Device& device) const {
    return PackKeys(device, keys, {shape.key_heads, shape.keys, shape.width});
  }

  // Scores of rows [first, first + rows).
  std::vector<float> Scores(Device& device, const HeadKeys& packed, int64_t first,
                            int64_t rows) const {
    const int64_t stride = shape.heads * shape.width;
    const DeviceArray<float> in(device, std::span(x).subspan(static_cast<size_t>(first * stride),
                                                             static_cast<size_t>(rows * stride)));
    const DeviceArray<float> out(
        device, std::vector<float>(static_cast<size_t>(rows * shape.heads * shape.keys), NAN));
    const absl::Status status = HeadScores(device, {{in.data(), {rows, shape.heads, shape.width}},
                                                    &packed,
                                                    {out.data(), {rows, shape.heads, shape.keys}}});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return out.Read();
  }

  // sum |x_k key_k|: what the bound of a dot product's rounding error is relative to.
  double Magnitude(int64_t row, int64_t head, int64_t key) const {
    const float* a = x.data() + (row * shape.heads + head) * shape.width;
    const float* b =
        keys.data() + (head / (shape.heads / shape.key_heads) * shape.keys + key) * shape.width;
    double sum = 0;
    for (int64_t k = 0; k < shape.width; ++k) sum += std::abs(double(a[k]) * b[k]);
    return sum;
  }

  HeadShape shape;
  std::vector<float> x, keys;
};

// The codes of k [rows, heads, width].
std::vector<int32_t> Assign(Device& device, const std::vector<float>& k, const HeadKeys& codebook) {
  const int64_t rows = static_cast<int64_t>(k.size()) / (codebook.heads * codebook.width);
  const DeviceArray<float> in(device, k);
  const DeviceArray<int32_t> codes(
      device, std::vector<int32_t>(static_cast<size_t>(rows * codebook.heads), -1));
  const absl::Status status = VqAssign(device, {{in.data(), {rows, codebook.heads, codebook.width}},
                                                &codebook,
                                                {codes.data(), {rows, codebook.heads}}});
  EXPECT_TRUE(status.ok()) << status.ToString();
  return codes.Read();
}

class HeadScoresTest : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam());
    device_ = MakeTestDevice(GetParam());
  }
  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeTestDevice("reference");
};

TEST_P(HeadScoresTest, MatchesReference) {
  for (const HeadShape& shape : kHeadShapes) {
    const Data data(shape);
    const auto got = data.Scores(*device_, data.Pack(*device_), 0, shape.rows);
    const auto want = data.Scores(*reference_, data.Pack(*reference_), 0, shape.rows);
    for (size_t i = 0; i < got.size(); ++i) {
      const auto key = static_cast<int64_t>(i) % shape.keys;
      const auto head = static_cast<int64_t>(i) / shape.keys;
      // A chain of K products and K additions in float32, and the reference's own rounding.
      const double bound = (2.0 * double(shape.width) + 1) * kRounding *
                           data.Magnitude(head / shape.heads, head % shape.heads, key);
      ASSERT_NEAR(got[i], want[i], bound) << i << " of keys " << shape.keys;
    }
  }
}

TEST_P(HeadScoresTest, ARowHasTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  for (const HeadShape& shape : kHeadShapes) {
    const Data data(shape);
    const HeadKeys packed = data.Pack(*device_);
    const auto all = data.Scores(*device_, packed, 0, shape.rows);
    const auto single = MakeTestDevice(GetParam(), 1);
    EXPECT_EQ(data.Scores(*single, packed, 0, shape.rows), all);
    const int64_t stride = shape.heads * shape.keys;
    for (int64_t row = 0; row < shape.rows; ++row) {
      const auto alone = data.Scores(*device_, packed, row, 1);
      ASSERT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + row * stride)) << row;
    }
  }
}

TEST_P(HeadScoresTest, AssignsTheNearestCode) {
  for (const HeadShape& shape : kHeadShapes) {
    if (shape.heads != shape.key_heads) continue;
    const Data data(shape);
    const HeadKeys codebook = data.Pack(*device_);
    const std::vector<int32_t> codes = Assign(*device_, data.x, codebook);
    for (size_t i = 0; i < codes.size(); ++i) {
      const auto row = static_cast<int64_t>(i) / shape.heads;
      const auto head = static_cast<int64_t>(i) % shape.heads;
      ASSERT_GE(codes[i], 0);
      ASSERT_LT(codes[i], shape.keys);
      const auto distance = [&](int64_t s, double& delta) {
        const float* a = data.x.data() + (row * shape.heads + head) * shape.width;
        const float* b = data.keys.data() + (head * shape.keys + s) * shape.width;
        double sum = 0;
        double norm = 0;
        for (int64_t j = 0; j < shape.width; ++j) {
          sum += (double(a[j]) - b[j]) * (double(a[j]) - b[j]);
          norm += double(b[j]) * b[j];
        }
        // Twice the error of the score, of the rounded |C|^2 / 2 and of their difference.
        delta =
            2 * kRounding * ((2.0 * double(shape.width) + 1) * data.Magnitude(row, head, s) + norm);
        return sum;
      };
      double own_delta = 0;
      const double own = distance(codes[i], own_delta);
      for (int64_t s = 0; s < shape.keys; ++s) {
        double delta = 0;
        const double other = distance(s, delta);
        ASSERT_LE(own, other + own_delta + delta) << "code " << codes[i] << " against " << s;
      }
    }
  }
}

TEST_P(HeadScoresTest, TheFirstCodeWinsATie) {
  constexpr int64_t kCodes = 50;
  std::vector<float> keys(kCodes * 2, 3.0F);
  for (const int64_t s : {11, 12, 27, 43, 49}) keys[static_cast<size_t>(2 * s)] = 1;
  const HeadKeys codebook = PackKeys(*device_, keys, {1, kCodes, 2});
  EXPECT_EQ(Assign(*device_, {1, 3}, codebook), std::vector<int32_t>{11});
}

// Ties between neighbours and far apart, in every row of many and in every head.
TEST_P(HeadScoresTest, TheFirstCodeWinsATieInEveryRow) {
  constexpr int64_t kCodes = 150, kHeads = 2, kRows = 37;
  const std::vector<int64_t> near[kHeads] = {{37, 64, 101, 149}, {95, 96, 128}};
  std::vector<float> keys(kHeads * kCodes * 2, 3.0F);
  for (int64_t head = 0; head < kHeads; ++head) {
    for (const int64_t s : near[head]) keys[static_cast<size_t>(2 * (head * kCodes + s))] = 1;
  }
  const HeadKeys codebook = PackKeys(*device_, keys, {kHeads, kCodes, 2});
  std::vector<float> k;
  std::vector<int32_t> want;
  for (int64_t row = 0; row < kRows; ++row) {
    // Every third row lies nearer to all the others, of which code 0 is the first.
    const bool far = row % 3 == 2;
    for (int64_t head = 0; head < kHeads; ++head) {
      k.insert(k.end(), {far ? 3.0F : 1.0F, 3.0F});
      want.push_back(far ? 0 : static_cast<int32_t>(near[head][0]));
    }
  }
  EXPECT_EQ(Assign(*device_, k, codebook), want);
}

TEST_P(HeadScoresTest, NanConcernsItsOwnRowAlone) {
  const Data data({37, 2, 2, 100, 32});
  const HeadKeys codebook = data.Pack(*device_);
  std::vector<int32_t> want = Assign(*device_, data.x, codebook);
  std::vector<float> k = data.x;
  constexpr size_t kRow = 19, kHead = 1, kKey = 2 * kRow + kHead;
  k[32 * kKey + 5] = NAN;
  std::vector<int32_t> got = Assign(*device_, k, codebook);
  EXPECT_GE(got[kKey], 0);
  EXPECT_LT(got[kKey], 100);
  got[kKey] = want[kKey];
  EXPECT_EQ(got, want);
}

TEST_P(HeadScoresTest, AssignsACodeEvenToNan) {
  const Data data({1, 1, 1, 40, 4});
  const HeadKeys codebook = data.Pack(*device_);
  const int32_t code = Assign(*device_, std::vector<float>(4, NAN), codebook)[0];
  EXPECT_GE(code, 0);
  EXPECT_LT(code, 40);
}

// A layer's queries and keys: N rows of H heads and of G.
struct LayerShape {
  int64_t rows, heads, kv_heads, codes, distances, width, position_width;
};

// One session's and many sessions' rows, more than are computed beside each other; ragged ends of
// everything; shared heads; distances whose scores hang on one number.
constexpr LayerShape kLayerShapes[] = {
    {1, 1, 1, 512, 513, 128, 128}, {16, 1, 1, 64, 33, 32, 32}, {37, 4, 2, 100, 71, 24, 24},
    {70, 2, 2, 40, 129, 64, 1},    {5, 6, 3, 31, 9, 40, 40},
};

struct LayerScores {
  std::vector<float> codes, positions;
  std::vector<int32_t> assigned;
};

// By VqScores, or by an op each. Of a layer without positions those are NaN.
LayerScores ScoresOfLayer(Device& device, const LayerShape& s, bool at_once, bool positions) {
  const auto pack = [&](std::array<int64_t, 3> shape, uint32_t seed) {
    return PackKeys(device, RandomFloats(shape[0] * shape[1] * shape[2], seed), shape);
  };
  const auto random = [&](int64_t count, uint32_t seed) {
    return DeviceArray<float>(device, RandomFloats(count, seed));
  };
  const auto unset = [&](int64_t count) {
    return DeviceArray<float>(device, std::vector<float>(static_cast<size_t>(count), NAN));
  };
  const HeadKeys codebook = pack({s.kv_heads, s.codes, s.width}, 1);
  const HeadKeys distances = pack({s.heads, s.distances, s.position_width}, 2);
  const auto q_u = random(s.rows * s.heads * s.width, 3);
  const auto q_w = random(s.rows * s.heads * s.position_width, 4);
  const auto k = random(s.rows * s.kv_heads * s.width, 5);
  const auto code_scores = unset(s.rows * s.heads * s.codes);
  const auto position_scores = unset(s.rows * s.heads * s.distances);
  const DeviceArray<int32_t> codes(
      device, std::vector<int32_t>(static_cast<size_t>(s.rows * s.kv_heads), -1));

  VqScoresArgs args;
  args.code_scores = {{q_u.data(), {s.rows, s.heads, s.width}},
                      &codebook,
                      {code_scores.data(), {s.rows, s.heads, s.codes}}};
  if (positions) {
    args.position_scores = {{q_w.data(), {s.rows, s.heads, s.position_width}},
                            &distances,
                            {position_scores.data(), {s.rows, s.heads, s.distances}}};
  }
  args.assign = {
      {k.data(), {s.rows, s.kv_heads, s.width}}, &codebook, {codes.data(), {s.rows, s.kv_heads}}};
  if (at_once) {
    EXPECT_TRUE(VqScores(device, args).ok());
  } else {
    EXPECT_TRUE(HeadScores(device, args.code_scores).ok());
    if (positions) {
      EXPECT_TRUE(HeadScores(device, args.position_scores).ok());
    }
    EXPECT_TRUE(VqAssign(device, args.assign).ok());
  }
  return {code_scores.Read(), position_scores.Read(), codes.Read()};
}

TEST_P(HeadScoresTest, ALayersScoresHaveTheBitsOfTheirOwnOps) {
  for (const LayerShape& shape : kLayerShapes) {
    const LayerScores apart = ScoresOfLayer(*device_, shape, false, true);
    // Twice: nothing of a call may stay for the next.
    for (int i = 0; i < 2; ++i) {
      const LayerScores at_once = ScoresOfLayer(*device_, shape, true, true);
      EXPECT_EQ(at_once.codes, apart.codes) << shape.rows << " rows";
      EXPECT_EQ(at_once.positions, apart.positions) << shape.rows << " rows";
      EXPECT_EQ(at_once.assigned, apart.assigned) << shape.rows << " rows";
    }
    const LayerScores without = ScoresOfLayer(*device_, shape, true, false);
    EXPECT_EQ(without.codes, apart.codes) << shape.rows << " rows";
    EXPECT_EQ(without.assigned, apart.assigned) << shape.rows << " rows";
    EXPECT_TRUE(std::ranges::all_of(without.positions, [](float x) { return std::isnan(x); }));
  }
}

TEST(HeadScoresCheckTest, NamesWhatIsWrongWithALayer) {
  const auto cpu = MakeTestDevice("cpu");
  const Data data({4, 2, 2, 3, 5});
  const HeadKeys keys = data.Pack(*cpu);
  std::vector<float> scores(4 * 2 * 3), distances(scores);
  std::vector<int32_t> codes(4 * 2);
  const Tensor<const float, 3> x{data.x.data(), {4, 2, 5}};
  const VqScoresArgs good{.code_scores = {x, &keys, {scores.data(), {4, 2, 3}}},
                          .position_scores = {x, &keys, {distances.data(), {4, 2, 3}}},
                          .assign = {x, &keys, {codes.data(), {4, 2}}}};
  EXPECT_TRUE(VqScores(*cpu, good).ok());
  const auto message = [&](auto change) {
    VqScoresArgs args = good;
    change(args);
    return std::string(VqScores(*cpu, args).message());
  };
  EXPECT_THAT(message([](VqScoresArgs& a) { a.code_scores.keys = nullptr; }),
              HasSubstr("VqScores, code_scores: keys are missing"));
  EXPECT_THAT(message([](VqScoresArgs& a) { a.position_scores.out.shape[2] = 4; }),
              HasSubstr("VqScores, position_scores: out is [4,2,4], expected [4,2,3]"));
  EXPECT_THAT(message([](VqScoresArgs& a) { a.assign.codes.shape[1] = 1; }),
              HasSubstr("VqScores, assign: codes is [4,1], expected [4,2]"));
  EXPECT_THAT(message([](VqScoresArgs& a) { a.assign.k.shape[0] = 3; }),
              HasSubstr("VqScores: keys of 3 rows and queries of 4"));
  EXPECT_THAT(message([](VqScoresArgs& a) { a.position_scores.x.shape[0] = 3; }),
              HasSubstr("VqScores: positions of 3 rows and codes of 4"));
}

TEST(HeadScoresCheckTest, NamesWhatIsWrong) {
  const auto cpu = MakeTestDevice("cpu");
  const Data data({2, 3, 3, 4, 5});
  const HeadKeys keys = data.Pack(*cpu);
  std::vector<float> out(2 * 3 * 4);
  const auto scores = [&](std::array<int64_t, 3> x, std::array<int64_t, 3> shape) {
    return std::string(
        HeadScores(*cpu, {{data.x.data(), x}, &keys, {out.data(), shape}}).message());
  };
  EXPECT_THAT(scores({2, 3, 6}, {2, 3, 4}),
              HasSubstr("HeadScores: x is [2,3,6], expected [2,3,5]"));
  EXPECT_THAT(scores({2, 3, 5}, {2, 3, 5}), HasSubstr("out is [2,3,5], expected [2,3,4]"));
  EXPECT_THAT(scores({2, 4, 5}, {2, 4, 4}),
              HasSubstr("4 heads, expected a multiple of the keys' 3"));
  HeadKeys none;
  const auto pack = [&](std::array<int64_t, 3> shape, HeadKeys* packed) {
    return std::string(PackHeadKeys(*cpu, {{data.keys.data(), shape}, packed}).message());
  };
  EXPECT_THAT(pack({0, 1, 1}, &none), HasSubstr("PackHeadKeys: keys is [0,1,1], expected"));
  EXPECT_THAT(pack({-1, -1, 1}, &none), HasSubstr("PackHeadKeys: keys is [-1,-1,1], expected"));
  EXPECT_THAT(pack({1, 1, 1}, nullptr), HasSubstr("PackHeadKeys: packed is missing"));
}

INSTANTIATE_TEST_SUITE_P(All, HeadScoresTest, ::testing::ValuesIn(AllDevices()), kCaseName);

}  // namespace
}  // namespace tvq
