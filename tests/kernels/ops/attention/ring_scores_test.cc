#include "kernels/ops/attention/ring_scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/ops/attention/vq_state.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

struct RingSize {
  int64_t tokens, heads, kv_heads, key, codes, window;
};

// Keys of two numbers, of no whole vector and of several, in shared memory more than one piece;
// more query heads than a tile has rows; a ring that is longer than the context and one that comes
// round several times.
constexpr RingSize kRingSizes[] = {
    {5, 1, 1, 2, 3, 64}, {230, 4, 2, 10, 7, 64}, {150, 10, 1, 70, 16, 128}};

// And, of the CPU, a ring of several tasks.
std::vector<RingSize> RingSizes(const DeviceCase& device) {
  std::vector<RingSize> sizes(std::begin(kRingSizes), std::end(kRingSizes));
  if (device.name == "cpu") sizes.push_back({2200, 2, 1, 8, 5, 2048});
  return sizes;
}

// What comes before, between and behind position scores that are written.
constexpr float kUnwritten = 12345;

struct Scores {
  std::vector<float> codes, positions;  // [n, H, S], [n, H, W]

  bool operator==(const Scores&) const = default;
};

// One session's positions.
class RingInputs {
 public:
  RingInputs(const RingSize& size_, DType dtype)
      : size(size_),
        shape{size.kv_heads, size.codes, size.window, 4, dtype, VqRead::kExact, size.key},
        bias(RandomFloats(size.heads, 1)),
        q(RandomFloats(size.tokens * size.heads * size.key, 2)),
        q_sink(RandomFloats(size.tokens * size.heads * size.key, 3)),
        k(RandomFloats(size.tokens * size.kv_heads * size.key, 4)),
        k_plain(RandomFloats(size.tokens * size.kv_heads * size.key, 5)),
        far(RandomFloats(size.tokens * size.heads * size.codes, 6)),
        codes(RandomIndices(size.tokens * size.kv_heads, size.codes - 1, 7)) {}

  // Rows [first, first + count), each `repeat` times, on a device.
  class Rows {
   public:
    Rows(Device& device, const RingInputs& in, int64_t first, int64_t count, int64_t repeat = 1)
        : in_(in),
          count_(count * repeat),
          bias_(device, in.bias),
          q_(device, Part(in.q, first, count, repeat)),
          q_sink_(device, Part(in.q_sink, first, count, repeat)),
          k_(device, Part(in.k, first, count, repeat)),
          k_plain_(device, Part(in.k_plain, first, count, repeat)),
          codes_(device, Part(in.codes, first, count, repeat)),
          code_scores_(device, Part(in.far, first, count, repeat)),
          position_scores_(device, std::vector<float>(
                                       static_cast<size_t>(count_ * in.size.heads * in.size.window),
                                       kUnwritten)) {}

    RingRows Args() const {
      const auto [tokens, heads, kv_heads, key, codes, window] = in_.size;
      return {{bias_.data(), {heads}},
              {q_.data(), {count_, heads, key}},
              {q_sink_.data(), {count_, heads, key}},
              {k_.data(), {count_, kv_heads, key}},
              {k_plain_.data(), {count_, kv_heads, key}},
              {codes_.data(), {count_, kv_heads}},
              {code_scores_.data(), {count_, heads, codes}},
              {position_scores_.data(), {count_, heads, window}}};
    }
    Scores Read() const { return {code_scores_.Read(), position_scores_.Read()}; }
    const DeviceArray<int32_t>& codes() const { return codes_; }

   private:
    template <typename T>
    std::vector<T> Part(const std::vector<T>& all, int64_t first, int64_t count,
                        int64_t repeat) const {
      const int64_t width = std::ssize(all) / in_.size.tokens;
      std::vector<T> part;
      for (int64_t n = first; n < first + count; ++n) {
        for (int64_t r = 0; r < repeat; ++r) {
          part.insert(part.end(), all.begin() + n * width, all.begin() + (n + 1) * width);
        }
      }
      return part;
    }

    const RingInputs& in_;
    const int64_t count_;
    const DeviceArray<float> bias_, q_, q_sink_, k_, k_plain_;
    const DeviceArray<int32_t> codes_;
    const DeviceArray<float> code_scores_, position_scores_;
  };

  // Takes codes and values of rows into the state, as attention does.
  void Append(Device& device, const OwnedState& state, int64_t first, int64_t count,
              const Rows& rows) const {
    const DeviceArray<float> v(
        device, std::vector<float>(static_cast<size_t>(count * size.kv_heads * 4), 1.0F));
    ASSERT_TRUE(tvq::Append(device, shape, state, first, count, rows.codes(), v).ok());
  }

  Scores Prefill(Device& device, const OwnedState& state, int64_t first, int64_t count) const {
    const Rows rows(device, *this, first, count);
    const absl::Status status =
        RingPrefillScores(device, {shape, state.View(), first, rows.Args()});
    EXPECT_TRUE(status.ok()) << status;
    Append(device, state, first, count, rows);
    return rows.Read();
  }

  // Position `at` of the session behind a row of nobody.
  Scores Decode(Device& device, const OwnedState& state, int64_t at) const {
    const Rows rows(device, *this, at, 1, 2), alone(device, *this, at, 1);
    const DeviceArray<VqState> states(device, std::vector<VqState>{{}, state.View()});
    const DeviceArray<int64_t> positions(device, std::vector<int64_t>{0, at});
    const absl::Status status = RingDecodeScores(
        device, {shape, {states.data(), {2}}, {positions.data(), {2}}, rows.Args()});
    EXPECT_TRUE(status.ok()) << status;
    // The row's own code is the sink's at position 0.
    std::vector<int32_t> codes = rows.codes().Read();
    codes.erase(codes.begin(), codes.begin() + size.kv_heads);
    const DeviceArray<int32_t> own(device, codes);
    const DeviceArray<float> v(device,
                               std::vector<float>(static_cast<size_t>(size.kv_heads * 4), 1));
    EXPECT_TRUE(tvq::Append(device, shape, state, at, 1, own, v).ok());
    const Scores both = rows.Read();
    return {{both.codes.begin() + std::ssize(both.codes) / 2, both.codes.end()},
            {both.positions.begin() + std::ssize(both.positions) / 2, both.positions.end()}};
  }

  static Scores Row(const Scores& all, int64_t row, int64_t rows) {
    const auto part = [&](const std::vector<float>& from) {
      const int64_t width = std::ssize(from) / rows;
      return std::vector<float>(from.begin() + row * width, from.begin() + (row + 1) * width);
    };
    return {part(all.codes), part(all.positions)};
  }

  float Stored(float x) const {
    return shape.value_dtype == DType::kFloat32 ? x : ToFloat(ToBFloat16(x));
  }

  // The formula in float64. A dot product rounds K times; code scores and differences once more.
  void ExpectRow(int64_t at, const Scores& row) const {
    for (int64_t h = 0; h < size.heads; ++h) {
      const int64_t g = h / (size.heads / size.kv_heads);
      const auto dot = [&](const std::vector<float>& x, const std::vector<float>& y, int64_t u,
                           bool stored) {
        double sum = 0, terms = 0;
        for (int64_t i = 0; i < size.key; ++i) {
          const float number = y[static_cast<size_t>((u * size.kv_heads + g) * size.key + i)];
          const double term = double{x[static_cast<size_t>((at * size.heads + h) * size.key + i)]} *
                              (stored ? Stored(number) : number);
          sum += term;
          terms += std::abs(term);
        }
        return std::pair(sum, terms);
      };
      const float* code_scores = row.codes.data() + h * size.codes;
      for (int64_t s = 0; s + 1 < size.codes; ++s) {
        const double exact =
            double{far[static_cast<size_t>((at * size.heads + h) * size.codes + s)]} +
            bias[static_cast<size_t>(h)];
        EXPECT_NEAR(code_scores[s], exact, kRounding * std::abs(exact));
      }
      const auto [sink, sink_terms] = dot(q_sink, k_plain, 0, false);
      EXPECT_NEAR(code_scores[size.codes - 1], sink, Gamma(size.key) * sink_terms);
      for (int64_t d = 0; d < size.window; ++d) {
        const float found = row.positions[static_cast<size_t>(h * size.window + d)];
        if (d > at) {
          ASSERT_EQ(found, kUnwritten) << "position " << at << ", distance " << d;
          continue;
        }
        const auto [score, terms] = dot(q, k, at - d, true);
        const int64_t code =
            at == d ? size.codes - 1 : codes[static_cast<size_t>((at - d) * size.kv_heads + g)];
        const double far_score = code_scores[code];
        ASSERT_NEAR(found, score - far_score, Gamma(size.key + 1) * (terms + std::abs(far_score)))
            << "position " << at << ", head " << h << ", distance " << d;
      }
    }
  }

  const RingSize size;
  const VqShape shape;
  const std::vector<float> bias, q, q_sink, k, k_plain, far;
  const std::vector<int32_t> codes;
};

class RingScoresTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override { TVQ_SKIP_WITHOUT_DEVICE(GetParam()); }
};

constexpr DType kStored[] = {DType::kFloat32, DType::kBFloat16};

TEST_P(RingScoresTest, PrefillIsTheFormulaHoweverItIsCut) {
  const auto device = MakeTestDevice(GetParam());
  for (const RingSize& size : RingSizes(GetParam())) {
    for (const DType dtype : kStored) {
      const RingInputs in(size, dtype);
      const OwnedState whole(*device, in.shape), cut(*device, in.shape);
      const Scores expected = in.Prefill(*device, whole, 0, size.tokens);
      for (int64_t t = 0; t < size.tokens; t += 1 + size.tokens / 200) {
        in.ExpectRow(t, RingInputs::Row(expected, t, size.tokens));
      }
      Scores found;
      for (int64_t first = 0, count = 0; first < size.tokens; first += count) {
        count = std::min<int64_t>(first % 2 == 0 ? 37 : 256, size.tokens - first);
        const Scores rows = in.Prefill(*device, cut, first, count);
        found.codes.insert(found.codes.end(), rows.codes.begin(), rows.codes.end());
        found.positions.insert(found.positions.end(), rows.positions.begin(), rows.positions.end());
      }
      EXPECT_TRUE(found == expected);
      EXPECT_TRUE(cut == whole);
    }
  }
}

// Of the longest ring the beginning and what comes after it has come round.
TEST_P(RingScoresTest, DecodeHasTheBitsOfPrefill) {
  const auto device = MakeTestDevice(GetParam());
  for (const RingSize& size : RingSizes(GetParam())) {
    for (const DType dtype : kStored) {
      const RingInputs in(size, dtype);
      const OwnedState whole(*device, in.shape), stepped(*device, in.shape);
      const Scores expected = in.Prefill(*device, whole, 0, size.tokens);
      const auto step = [&](int64_t first, int64_t end) {
        for (int64_t t = first; t < end; ++t) {
          ASSERT_TRUE(in.Decode(*device, stepped, t) == RingInputs::Row(expected, t, size.tokens))
              << t;
        }
      };
      const int64_t first = std::min<int64_t>(size.tokens, 40);
      const int64_t last = std::max<int64_t>(first, size.tokens - 160);
      step(0, first);
      if (first < last) in.Prefill(*device, stepped, first, last - first);
      step(last, size.tokens);
      EXPECT_TRUE(stepped == whole);
    }
  }
}

TEST_P(RingScoresTest, NamesWhatIsWrong) {
  const auto device = MakeTestDevice(GetParam());
  const RingInputs in(kRingSizes[1], DType::kFloat32);
  const OwnedState state(*device, in.shape);
  const RingInputs::Rows rows(*device, in, 0, 1);
  const auto error = [&](auto change) {
    RingPrefillScoresArgs args{in.shape, state.View(), 0, rows.Args()};
    change(args);
    return std::string(RingPrefillScores(*device, args).message());
  };
  EXPECT_EQ(error([](auto&) {}), "");
  EXPECT_THAT(error([](auto& args) { args.shape.window = 65; }),
              HasSubstr("a window of 65 and keys of 10 numbers, expected a multiple of 64"));
  EXPECT_THAT(error([](auto& args) { args.shape.key = 0; }), HasSubstr("keys of 0 numbers"));
  EXPECT_THAT(error([](auto& args) { args.rows.q.shape = {1, 3, 10}; }),
              HasSubstr("q has 3 heads"));
  EXPECT_THAT(error([](auto& args) { args.rows.k_plain.shape = {1, 2, 9}; }),
              HasSubstr("k_plain is [1,2,9], expected [1,2,10]"));
  EXPECT_THAT(error([](auto& args) { args.rows.bias.shape = {3}; }),
              HasSubstr("bias is [3], expected [4]"));
  EXPECT_THAT(error([](auto& args) { args.state.window_key = nullptr; }),
              HasSubstr("state lacks memory"));
  EXPECT_THAT(error([](auto& args) { args.position = -1; }), HasSubstr("position is -1"));
}

// Consecutive rows of a state in one call have the bits of calls of their own, and are taken back.
class RingDraftsTest : public testing::Test {};

TEST_F(RingDraftsTest, RowsOfOneStateAreTakenBackToTheBits) {
  const auto device = MakeDevice("cpu").value();
  const RingInputs in(kRingSizes[1], DType::kBFloat16);
  const int64_t heads = in.size.heads, window = in.size.window;
  for (const int64_t start : {int64_t{0}, int64_t{3}, window - 1, 2 * window + 5}) {
    const OwnedState state(*device, in.shape), alone(*device, in.shape);
    if (start > 0) {
      in.Prefill(*device, state, 0, start);
      in.Prefill(*device, alone, 0, start);
    }
    constexpr int64_t kRows = 4;
    const RingInputs::Rows rows(*device, in, start, kRows);
    std::vector<VqState> views(kRows, state.View());
    std::vector<std::vector<int32_t>> undo(
        kRows, std::vector<int32_t>(static_cast<size_t>(VqUndoBytes(in.shape) / 4 + 1)));
    std::vector<int64_t> positions;
    for (int64_t n = 0; n < kRows; ++n) {
      views[static_cast<size_t>(n)].undo = undo[static_cast<size_t>(n)].data();
      positions.push_back(start + n);
    }
    ASSERT_TRUE(
        RingDecodeScores(
            *device, {in.shape, {views.data(), {kRows}}, {positions.data(), {kRows}}, rows.Args()})
            .ok());
    const std::vector<float> v(static_cast<size_t>(kRows * in.size.kv_heads * 4), 2.0F);
    std::vector<float> out(static_cast<size_t>(kRows * heads * 4));
    const RingRows given = rows.Args();
    ASSERT_TRUE(
        VqDecodeAttention(*device, {in.shape,
                                    {views.data(), {kRows}},
                                    {positions.data(), {kRows}},
                                    {given.code_scores.data, given.code_scores.shape},
                                    {given.position_scores.data, given.position_scores.shape},
                                    {given.codes.data, given.codes.shape},
                                    {v.data(), {kRows, in.size.kv_heads, 4}},
                                    {out.data(), {kRows, heads, 4}}})
            .ok());
    const Scores together = rows.Read();
    for (int64_t n = 0; n < kRows; ++n) {
      EXPECT_TRUE(in.Decode(*device, alone, start + n) == RingInputs::Row(together, n, kRows)) << n;
    }
    const OwnedState before(*device, in.shape);
    if (start > 0) in.Prefill(*device, before, 0, start);
    for (int64_t n = kRows - 1; n >= 0; --n) {
      ASSERT_TRUE(VqTakeBack(*device, {in.shape, views[static_cast<size_t>(n)], start + n}).ok());
    }
    // The sink's key stays: position 0 writes it again before anything reads it.
    if (start > 0) EXPECT_TRUE(state == before) << start;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RingScoresTest, testing::ValuesIn(AllDevices()), kCaseName);

}  // namespace
}  // namespace tvq
