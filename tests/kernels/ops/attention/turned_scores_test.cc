#include "kernels/ops/attention/turned_scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "tests/kernels/ops/attention/vq_state.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

struct TurnedShape {
  int64_t tokens, heads, kv_heads, key, codes, window;
};

// A reach of 0, one that is longer than the context, keys of one pair, of no whole vector and of
// several; shared heads.
constexpr TurnedShape kTurnedShapes[] = {
    {5, 1, 1, 2, 3, 1}, {30, 4, 2, 10, 7, 9}, {20, 3, 1, 64, 16, 33}, {40, 2, 2, 70, 5, 17}};

// One session's positions.
struct TurnedInputs {
  explicit TurnedInputs(const TurnedShape& s)
      : shape(s),
        state_shape{s.kv_heads, s.codes, s.window, 4, DType::kFloat32},
        q(RandomFloats(s.tokens * s.heads * s.key, 1)),
        codebook(RandomFloats(s.kv_heads * s.codes * s.key, 2)),
        turns(RandomFloats(s.window * s.key, 3)),
        codes(RandomIndices(s.tokens * s.kv_heads, s.codes, 4)) {}

  // What a device needs for all calls.
  struct Memory {
    Memory(Device& device_, const TurnedInputs& in)
        : device(device_),
          codebook(device_, in.codebook),
          turns(device_, in.turns),
          state(device_, in.state_shape) {}
    Device& device;
    DeviceArray<float> codebook, turns;
    OwnedState state;
  };

  TurnedKeys Keys(const Memory& memory) const {
    return {state_shape,
            {memory.codebook.data(), {shape.kv_heads, shape.codes, shape.key}},
            {memory.turns.data(), {shape.window, shape.key}}};
  }

  template <typename T>
  DeviceArray<T> Rows(const Memory& memory, const std::vector<T>& all, int64_t width, int64_t first,
                      int64_t count) const {
    return {memory.device, std::span(all).subspan(static_cast<size_t>(first * width),
                                                  static_cast<size_t>(count * width))};
  }

  // Takes positions into the state.
  void Append(const Memory& memory, int64_t first, int64_t count) const {
    const auto code = Rows(memory, codes, shape.kv_heads, first, count);
    const DeviceArray<float> v(
        memory.device, std::vector<float>(static_cast<size_t>(count * shape.kv_heads * 4), 1.0F));
    ASSERT_TRUE(tvq::Append(memory.device, state_shape, memory.state, first, count, code, v).ok());
  }

  std::vector<float> Prefill(const Memory& memory, int64_t first, int64_t count) const {
    const auto x = Rows(memory, q, shape.heads * shape.key, first, count);
    const auto code = Rows(memory, codes, shape.kv_heads, first, count);
    const DeviceArray<float> out(memory.device,
                                 std::vector<float>(static_cast<size_t>(count * RowSize()), NAN));
    const absl::Status status =
        TurnedPrefillScores(memory.device, {Keys(memory),
                                            memory.state.View(),
                                            first,
                                            {x.data(), {count, shape.heads, shape.key}},
                                            {code.data(), {count, shape.kv_heads}},
                                            {out.data(), {count, shape.heads, shape.window}}});
    EXPECT_TRUE(status.ok()) << status;
    return out.Read();
  }

  // Position `at` of the session, between a row of nobody and another one.
  std::vector<float> Decode(const Memory& memory, int64_t at) const {
    const DeviceArray<VqState> states(memory.device, std::vector<VqState>{{}, memory.state.View()});
    const DeviceArray<int64_t> positions(memory.device, std::vector<int64_t>{0, at});
    const DeviceArray<float> x(memory.device, Twice(q, shape.heads * shape.key, at));
    const DeviceArray<int32_t> code(memory.device, Twice(codes, shape.kv_heads, at));
    const DeviceArray<float> out(memory.device,
                                 std::vector<float>(static_cast<size_t>(2 * RowSize()), NAN));
    const absl::Status status =
        TurnedDecodeScores(memory.device, {Keys(memory),
                                           {states.data(), {2}},
                                           {positions.data(), {2}},
                                           {x.data(), {2, shape.heads, shape.key}},
                                           {code.data(), {2, shape.kv_heads}},
                                           {out.data(), {2, shape.heads, shape.window}}});
    EXPECT_TRUE(status.ok()) << status;
    const std::vector<float> both = out.Read();
    const auto middle = both.begin() + RowSize();
    EXPECT_TRUE(std::all_of(both.begin(), middle, [](float x) { return x == 0; }))
        << "a row of nobody";
    return {middle, both.end()};
  }

  template <typename T>
  static std::vector<T> Twice(const std::vector<T>& all, int64_t width, int64_t row) {
    std::vector<T> twice(all.begin() + row * width, all.begin() + (row + 1) * width);
    twice.insert(twice.end(), all.begin() + row * width, all.begin() + (row + 1) * width);
    return twice;
  }

  int64_t RowSize() const { return shape.heads * shape.window; }

  // The formula in float64, and what float32 may be off: each number of a key meets two products
  // with q, which are rounded twice, then a product and a sum of K terms.
  void ExpectRow(int64_t at, const float* row) const {
    const int64_t half = shape.key / 2;
    for (int64_t h = 0; h < shape.heads; ++h) {
      const int64_t g = h / (shape.heads / shape.kv_heads);
      const float* x = q.data() + (at * shape.heads + h) * shape.key;
      for (int64_t d = 0; d < shape.window; ++d) {
        double sum = 0, size = 0;
        if (d <= at) {
          const int32_t code = codes[static_cast<size_t>((at - d) * shape.kv_heads + g)];
          const float* key = codebook.data() + (g * shape.codes + code) * shape.key;
          const float* turn = turns.data() + d * shape.key;
          for (int64_t c = 0; c < half; ++c) {
            for (const double term :
                 {double{x[c]} * turn[c] * key[c], -double{x[c]} * turn[half + c] * key[half + c],
                  double{x[half + c]} * turn[half + c] * key[c],
                  double{x[half + c]} * turn[c] * key[half + c]}) {
              sum += term;
              size += std::abs(term);
            }
          }
        }
        EXPECT_NEAR(row[h * shape.window + d], sum, Gamma(shape.key + 3) * size)
            << "position " << at << ", head " << h << ", distance " << d;
      }
    }
  }

  TurnedShape shape;
  VqShape state_shape;
  std::vector<float> q, codebook, turns;
  std::vector<int32_t> codes;
};

class TurnedScoresTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override { TVQ_SKIP_WITHOUT_DEVICE(GetParam()); }
};

TEST_P(TurnedScoresTest, PrefillIsTheFormulaHoweverItIsCut) {
  const auto device = MakeTestDevice(GetParam());
  for (const TurnedShape& shape : kTurnedShapes) {
    const TurnedInputs in(shape);
    const TurnedInputs::Memory whole(*device, in), cut(*device, in);
    const std::vector<float> expected = in.Prefill(whole, 0, shape.tokens);
    for (int64_t t = 0; t < shape.tokens; ++t) in.ExpectRow(t, expected.data() + t * in.RowSize());
    std::vector<float> found;
    for (int64_t first = 0; first < shape.tokens; first += 3) {
      const int64_t count = std::min<int64_t>(3, shape.tokens - first);
      const std::vector<float> rows = in.Prefill(cut, first, count);
      found.insert(found.end(), rows.begin(), rows.end());
      in.Append(cut, first, count);
    }
    EXPECT_EQ(found, expected);
  }
}

TEST_P(TurnedScoresTest, DecodeHasTheBitsOfPrefill) {
  const auto device = MakeTestDevice(GetParam());
  for (const TurnedShape& shape : kTurnedShapes) {
    const TurnedInputs in(shape);
    const TurnedInputs::Memory memory(*device, in);
    const std::vector<float> expected = in.Prefill(memory, 0, shape.tokens);
    for (int64_t t = 0; t < shape.tokens; ++t) {
      const auto row = expected.begin() + t * in.RowSize();
      EXPECT_EQ(in.Decode(memory, t), std::vector<float>(row, row + in.RowSize())) << t;
      in.Append(memory, t, 1);
    }
  }
}

TEST_P(TurnedScoresTest, NamesWhatIsWrong) {
  const auto device = MakeTestDevice(GetParam());
  const TurnedInputs in(kTurnedShapes[1]);
  const TurnedInputs::Memory memory(*device, in);
  const DeviceArray<float> q(*device, in.q), out(*device, std::vector<float>(4 * 9));
  const DeviceArray<int32_t> codes(*device, in.codes);
  const TurnedPrefillScoresArgs good{
      in.Keys(memory),        memory.state.View(),    0,
      {q.data(), {1, 4, 10}}, {codes.data(), {1, 2}}, {out.data(), {1, 4, 9}}};
  const auto error = [&](auto change) {
    TurnedPrefillScoresArgs args = good;
    change(args);
    return std::string(TurnedPrefillScores(*device, args).message());
  };
  EXPECT_EQ(error([](auto&) {}), "");
  EXPECT_THAT(error([](auto& args) { args.q.shape = {1, 4, 9}; }),
              HasSubstr("q has keys of 9 numbers, expected pairs of them to turn"));
  EXPECT_THAT(error([](auto& args) { args.q.shape = {1, 3, 10}; }), HasSubstr("q has 3 heads"));
  EXPECT_THAT(error([](auto& args) { args.keys.turns.shape = {8, 10}; }),
              HasSubstr("turns is [8,10], expected [9,10]"));
  EXPECT_THAT(error([](auto& args) { args.keys.codebook.shape = {2, 6, 10}; }),
              HasSubstr("codebook is [2,6,10], expected [2,7,10]"));
  EXPECT_THAT(error([](auto& args) { args.out.shape = {1, 4, 8}; }), HasSubstr("out is [1,4,8]"));
  EXPECT_THAT(error([](auto& args) { args.position = -1; }), HasSubstr("position is -1"));
  EXPECT_THAT(error([](auto& args) { args.state = {}; }), HasSubstr("state lacks memory"));
}

INSTANTIATE_TEST_SUITE_P(Devices, TurnedScoresTest, testing::ValuesIn(AllDevices()), kCaseName);

}  // namespace
}  // namespace tvq
