#include "kernels/ops/attention/linear_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "absl/strings/str_cat.h"
#include "tests/kernels/ops/attention/linear_state.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

struct Case {
  int64_t heads, kv_heads, features, value, tokens;
  LinearShape Shape() const { return {kv_heads, features, value}; }
};

// Own and shared key/value heads; features and values of one, of no whole vector, of a tile and a
// bit; less than a block, and several.
constexpr Case kCases[] = {
    {3, 3, 7, 13, 150}, {4, 2, 32, 64, 140},  {1, 1, 1, 1, 70},    {2, 1, 16, 48, 200},
    {1, 1, 33, 5, 30},  {6, 1, 20, 100, 130}, {1, 1, 64, 300, 90}, {9, 3, 5, 272, 65},
};

class LinearAttentionTest : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam());
    device_ = MakeTestDevice(GetParam());
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeTestDevice("reference");
};

template <typename A, typename B>
void ExpectNear(const std::vector<A>& got, const std::vector<B>& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << "element " << i;
}

TEST_P(LinearAttentionTest, DecodeIsLinearAttentionOverAllPositions) {
  for (const Case& c : kCases) {
    const LinearInputs inputs(c.Shape(), c.heads, c.tokens, 1);
    OwnedLinearState state(*device_, inputs.shape);
    ExpectNear(inputs.Decode(*device_, state), inputs.Quadratic(), inputs.Bound());
  }
}

TEST_P(LinearAttentionTest, DecodeAgreesWithTheReference) {
  for (const Case& c : kCases) {
    const LinearInputs inputs(c.Shape(), c.heads, c.tokens, 2);
    OwnedLinearState got(*device_, inputs.shape);
    OwnedLinearState want(*reference_, inputs.shape);
    ExpectNear(inputs.Decode(*device_, got), inputs.Decode(*reference_, want), 2 * inputs.Bound());
  }
}

// A term's product is rounded; the pairs lose nothing that would show.
TEST_P(LinearAttentionTest, TheStateHoldsTheSums) {
  for (const Case& c : kCases) {
    const LinearInputs inputs(c.Shape(), c.heads, c.tokens, 3);
    OwnedLinearState state(*device_, inputs.shape);
    std::vector<float> out(static_cast<size_t>(inputs.OutSize()));
    inputs.Prefill(*device_, state, 0, c.tokens, out);
    const std::vector<double> keys = state.Keys(), key_values = state.KeyValues();
    for (int64_t row = 0; row < c.kv_heads * c.features; ++row) {
      double sum = 0;
      std::vector<double> sums(static_cast<size_t>(c.value)), terms(sums);
      for (int64_t t = 0; t < c.tokens; ++t) {
        const double f = inputs.k[static_cast<size_t>(t * inputs.KeyWidth() + row)];
        const float* v = inputs.v.data() + t * inputs.ValueWidth() + row / c.features * c.value;
        sum += f;
        for (size_t i = 0; i < sums.size(); ++i) {
          sums[i] += f * v[i];
          terms[i] += f * std::abs(v[i]);
        }
      }
      ASSERT_NEAR(keys[static_cast<size_t>(row)], sum, kRounding * sum);
      for (size_t i = 0; i < sums.size(); ++i) {
        ASSERT_NEAR(key_values[static_cast<size_t>(row * c.value) + i], sums[i],
                    2 * kRounding * terms[i]);
      }
    }
  }
}

TEST_P(LinearAttentionTest, StatesAreEqualHoweverPositionsCame) {
  for (const Case& c : kCases) {
    const LinearInputs inputs(c.Shape(), c.heads, c.tokens, 4);
    OwnedLinearState decoded(*device_, inputs.shape);
    inputs.Decode(*device_, decoded);
    OwnedLinearState prefilled(*device_, inputs.shape);
    std::vector<float> out(static_cast<size_t>(inputs.OutSize()));
    inputs.Prefill(*device_, prefilled, 0, c.tokens, out);
    EXPECT_TRUE(decoded == prefilled);
    OwnedLinearState pieces(*device_, inputs.shape);
    inputs.Prefill(*device_, pieces, 0, 3, out);
    inputs.Prefill(*device_, pieces, 3, 1, out);
    inputs.Prefill(*device_, pieces, 4, c.tokens - 4, out);
    EXPECT_TRUE(decoded == pieces);
  }
}

TEST_P(LinearAttentionTest, PrefillIsLinearAttentionInWhateverChunks) {
  std::mt19937 random(5);
  for (const Case& c : kCases) {
    const LinearInputs inputs(c.Shape(), c.heads, c.tokens, 5);
    const auto want = inputs.Quadratic();
    for (int round = 0; round < 3; ++round) {
      OwnedLinearState state(*device_, inputs.shape);
      std::vector<float> out(static_cast<size_t>(inputs.OutSize()), NAN);
      for (int64_t first = 0; first < c.tokens;) {
        const int64_t longest = std::min<int64_t>(c.tokens - first, 100);
        const int64_t count =
            round == 0 ? c.tokens : std::uniform_int_distribution<int64_t>(1, longest)(random);
        inputs.Prefill(*device_, state, first, count, out);
        first += count;
      }
      ExpectNear(out, want, inputs.Bound());
    }
  }
}

TEST_P(LinearAttentionTest, ChunksThatEndAtBlocksDoNotChangeBits) {
  const std::unique_ptr<Device> one_thread = MakeTestDevice(GetParam(), 1);
  for (const Case& c : {Case{3, 1, 20, 70, 300}, Case{4, 4, 64, 64, 270}}) {
    const LinearInputs inputs(c.Shape(), c.heads, c.tokens, 6);
    const auto prefill = [&](Device& device, int64_t chunk) {
      OwnedLinearState state(device, inputs.shape);
      std::vector<float> out(static_cast<size_t>(inputs.OutSize()), NAN);
      for (int64_t first = 0; first < c.tokens; first += chunk) {
        inputs.Prefill(device, state, first, std::min(chunk, c.tokens - first), out);
      }
      return out;
    };
    const auto whole = prefill(*device_, c.tokens);
    EXPECT_EQ(prefill(*device_, kLinearPrefillBlock), whole);
    EXPECT_EQ(prefill(*device_, 2 * kLinearPrefillBlock), whole);
    EXPECT_EQ(prefill(*one_thread, c.tokens), whole);
    // What comes after a position does not change its bits.
    OwnedLinearState state(*device_, inputs.shape);
    std::vector<float> out(static_cast<size_t>(inputs.OutSize()), NAN);
    inputs.Prefill(*device_, state, 0, 100, out);
    EXPECT_TRUE(std::equal(out.begin(), out.begin() + 100 * c.heads * c.value, whole.begin()));
  }
}

TEST_P(LinearAttentionTest, ASessionHasTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  const std::unique_ptr<Device> one_thread = MakeTestDevice(GetParam(), 1);
  for (const Case& c : kCases) {
    // Sessions of different lengths, all fed the last token of their own inputs.
    std::vector<OwnedLinearState> states;
    std::vector<LinearState> views;
    std::vector<float> alone, q, k, v;
    const auto append_last = [](auto& to, const auto& from, int64_t count) {
      to.insert(to.end(), from.end() - count, from.end());
    };
    const auto append_rows = [&](const LinearInputs& inputs) {
      append_last(q, inputs.q, inputs.QueryWidth());
      append_last(k, inputs.k, inputs.KeyWidth());
      append_last(v, inputs.v, inputs.ValueWidth());
    };
    for (uint32_t n = 0; n < 5; ++n) {
      const LinearInputs inputs(c.Shape(), c.heads, 1 + n * 17, 7 + n);
      OwnedLinearState whole(*one_thread, inputs.shape);
      append_last(alone, inputs.Decode(*one_thread, whole), c.heads * c.value);
      states.emplace_back(*device_, inputs.shape);
      std::vector<float> out(static_cast<size_t>(inputs.OutSize()));
      if (n > 0) inputs.Prefill(*device_, states.back(), 0, inputs.tokens - 1, out);
      append_rows(inputs);
    }
    views.reserve(states.size() + 1);
    for (const OwnedLinearState& state : states) views.push_back(state.View());
    // A row of nobody fills up the batch.
    views.insert(views.begin() + 1, LinearState());
    const auto insert_row = [](std::vector<float>& rows, int64_t width) {
      rows.insert(rows.begin() + width, static_cast<size_t>(width), 0.0F);
    };
    insert_row(q, c.heads * c.features);
    insert_row(k, c.kv_heads * c.features);
    insert_row(v, c.kv_heads * c.value);
    insert_row(alone, c.heads * c.value);
    EXPECT_EQ(LinearDecodeStep(*device_, c.Shape(), c.heads, views, q, k, v), alone);
  }
}

// Features from e^-60 to 40: weights differ by 35 orders of magnitude, and the largest decides.
TEST_P(LinearAttentionTest, WeightsFarApartStayAnAverage) {
  const Case c{2, 1, 16, 32, 100};
  LinearInputs inputs(c.Shape(), c.heads, c.tokens, 8);
  const std::vector<int32_t> extremes = RandomIndices(c.tokens * c.features, 3, 9);
  for (size_t i = 0; i < extremes.size(); ++i) {
    if (extremes[i] == 0) inputs.k[i] = std::exp(-60.0F);
    if (extremes[i] == 1) inputs.k[i] = 40;
  }
  for (float& x : inputs.q) x = x < 1 ? x * x * x * x : x;
  OwnedLinearState state(*device_, inputs.shape);
  const auto want = inputs.Quadratic();
  ExpectNear(inputs.Decode(*device_, state), want, inputs.Bound());
  OwnedLinearState other(*device_, inputs.shape);
  std::vector<float> out(static_cast<size_t>(inputs.OutSize()));
  inputs.Prefill(*device_, other, 0, c.tokens, out);
  ExpectNear(out, want, inputs.Bound());
}

std::vector<float> DecodeAll(Device& device, const LinearInputs& inputs) {
  OwnedLinearState state(device, inputs.shape);
  return inputs.Decode(device, state);
}

std::vector<float> PrefillAll(Device& device, const LinearInputs& inputs) {
  OwnedLinearState state(device, inputs.shape);
  std::vector<float> out(static_cast<size_t>(inputs.OutSize()), NAN);
  inputs.Prefill(device, state, 0, 1, out);  // the next block begins in the midst
  inputs.Prefill(device, state, 1, inputs.tokens - 1, out);
  return out;
}

// Of what CUDA leaves to the CPU.
class LinearExponentsTest : public LinearAttentionTest {};

// An exponent less the largest is rounded, and so is the exponential, by less than 4 roundings: so
// much may each weight be off, of the numerator and of the denominator.
TEST_P(LinearExponentsTest, ExponentsOfQueriesAreThoseOfTheirFeatures) {
  for (const Case& c : kCases) {
    LinearInputs inputs(c.Shape(), c.heads, c.tokens, 10);
    inputs.q = RandomFloats(static_cast<int64_t>(inputs.q.size()), 11, 3);
    inputs.exponents = true;
    const double bound = inputs.Bound() + 2 * (2 * LinearInputs::Largest(inputs.q) + 4) *
                                              kRounding * LinearInputs::Largest(inputs.v);
    const auto want = inputs.Quadratic();
    ExpectNear(DecodeAll(*device_, inputs), want, bound);
    ExpectNear(PrefillAll(*device_, inputs), want, bound);
  }
}

// The first `count` keys have `little` of the last feature, whose exponents are the largest by far;
// its sum is a normal number from position `from` on.
void ExpectDecidesFrom(int64_t from, int64_t count, float little, Device& device, const Case& c) {
  LinearInputs inputs(c.Shape(), c.heads, c.tokens, 12);
  inputs.q = RandomFloats(static_cast<int64_t>(inputs.q.size()), 13, 3);
  inputs.exponents = true;
  const int64_t last = c.features - 1;
  const auto feature = [&](int64_t t, int64_t g) -> float& {
    return inputs.k[static_cast<size_t>((t * c.kv_heads + g) * c.features + last)];
  };
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t g = 0; g < c.kv_heads; ++g) feature(t, g) = little;
  }
  LinearInputs large = inputs;
  for (auto i = static_cast<size_t>(last); i < large.q.size(); i += last + 1) large.q[i] = 1000;
  // A product with a subnormal key is off by 2^-150, and is divided by 2^-126 at least.
  const double bound = inputs.Bound() + static_cast<double>(from + 1) * std::exp2(-24);
  for (const auto& run : {&DecodeAll, &PrefillAll}) {
    const std::vector<float> got = run(device, large), plain = run(device, inputs);
    const int64_t first = from * c.heads * c.value;
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + first, plain.begin()));
    // From there on only what it belongs to weighs.
    for (auto i = static_cast<size_t>(first); i < got.size(); ++i) {
      ASSERT_TRUE(std::isfinite(got[i]));
    }
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t g = h / (c.heads / c.kv_heads);
      for (int64_t i = 0; i < c.value; ++i) {
        double values = 0, keys = 0;
        for (int64_t t = 0; t <= from; ++t) {
          const float* value = inputs.v.data() + (t * c.kv_heads + g) * c.value;
          values += static_cast<double>(feature(t, g)) * value[i];
          keys += feature(t, g);
        }
        ASSERT_NEAR(got[static_cast<size_t>(first + h * c.value + i)], values / keys, bound);
      }
    }
  }
}

// Were the largest of all exponents taken off, all others would be e^-1000 of it, and o 0/0.
TEST_P(LinearExponentsTest, AFeatureThatNoKeyHasDoesNotDecideHoweverLarge) {
  for (const Case& c : {Case{3, 3, 7, 13, 100}, Case{4, 2, 33, 64, 150}}) {
    ExpectDecidesFrom(70, 70, 0, *device_, c);       // in the second block
    ExpectDecidesFrom(70, 70, 1e-40F, *device_, c);  // 70 of them are still less than 2^-126
  }
}

// Each key's is subnormal, 12 and 66 of them together are more than 2^-126 = 1.1755e-38.
TEST_P(LinearExponentsTest, AFeatureDecidesFromTheSmallestNormalSumOn) {
  for (const Case& c : {Case{3, 3, 7, 13, 100}, Case{4, 2, 33, 64, 150}}) {
    ExpectDecidesFrom(11, c.tokens, 1e-39F, *device_, c);
    ExpectDecidesFrom(65, c.tokens, 1.8e-40F, *device_, c);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, LinearAttentionTest, ::testing::ValuesIn(AllDevices()),
                         kCaseName);
INSTANTIATE_TEST_SUITE_P(Isa, LinearExponentsTest, ::testing::ValuesIn(CpuDevices()), kCaseName);

TEST(LinearAttentionCheckTest, NamesWhatIsWrong) {
  const auto cpu = MakeTestDevice("cpu");
  const LinearShape shape{1, 4, 2};
  const LinearInputs inputs(shape, 2, 1, 1);
  OwnedLinearState state(*cpu, shape);
  std::vector<float> out(4);
  LinearPrefillAttentionArgs args{shape,
                                  state.View(),
                                  0,
                                  {inputs.q.data(), {1, 2, 4}},
                                  {inputs.k.data(), {1, 1, 4}},
                                  {inputs.v.data(), {1, 1, 2}},
                                  {out.data(), {1, 2, 2}}};
  const auto prefill = [&](const LinearShape& s, const LinearState& view, int64_t position) {
    LinearPrefillAttentionArgs wrong = args;
    wrong.shape = s;
    wrong.state = view;
    wrong.position = position;
    return std::string(LinearPrefillAttention(*cpu, wrong).message());
  };
  EXPECT_THAT(prefill({1, 0, 2}, state.View(), 0), HasSubstr("0 features"));
  EXPECT_THAT(prefill({3, 4, 2}, state.View(), 0), HasSubstr("q has 2 heads"));
  EXPECT_THAT(prefill({1, 4, 5}, state.View(), 0), HasSubstr("v is [1,1,2], expected [1,1,5]"));
  EXPECT_THAT(prefill(shape, state.View(), -1), HasSubstr("position is -1"));
  EXPECT_THAT(prefill(shape, {}, 0), HasSubstr("state lacks memory"));
  LinearState half = state.View();
  half.key_carry = nullptr;
  LinearDecodeAttentionArgs decode{shape,
                                   {&half, {1}},
                                   {inputs.q.data(), {1, 2, 4}},
                                   {inputs.k.data(), {1, 1, 4}},
                                   {inputs.v.data(), {1, 1, 2}},
                                   {out.data(), {1, 2, 2}}};
  EXPECT_THAT(std::string(LinearDecodeAttention(*cpu, decode).message()),
              HasSubstr("a state lacks memory"));
  const auto cuda = MakeCudaStandIn("forwards");
  args.query_exponents = decode.query_exponents = true;
  constexpr const char* kRefused =
      "the backend 'cuda' takes features of queries, not exponents of them; the backend 'cpu' "
      "takes both";
  EXPECT_EQ(LinearDecodeAttention(*cuda, decode).ToString(),
            absl::StrCat("UNIMPLEMENTED: LinearDecodeAttention: ", kRefused));
  EXPECT_EQ(LinearPrefillAttention(*cuda, args).ToString(),
            absl::StrCat("UNIMPLEMENTED: LinearPrefillAttention: ", kRefused));
}

}  // namespace
}  // namespace tvq
