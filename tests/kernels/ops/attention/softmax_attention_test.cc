#include "kernels/ops/attention/softmax_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <tuple>

#include "tests/kernels/ops/attention/softmax_state.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

struct Case {
  int64_t heads, kv_heads, key, value, window, tokens;
};

// Less than a panel, than a page, several pages and a bit; a reach of none, of one position, less
// and more than all; own and shared key/value heads, more than a tile or a block has rows; keys and
// values of one, of no whole vector, of a tile and a bit, of several blocks of a GPU.
constexpr Case kCases[] = {
    {3, 3, 7, 13, 9, 270},  {4, 2, 32, 64, 33, 140},  {9, 1, 33, 100, 65, 70},
    {1, 1, 1, 1, 1, 20},    {1, 1, 64, 300, 17, 40},  {2, 1, 16, 48, 0, 530},
    {1, 1, 33, 5, 200, 90}, {9, 1, 20, 100, 65, 300}, {9, 3, 5, 72, 600, 513},
};

class SoftmaxAttentionTest : public ::testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam().device);
    device_ = MakeTestDevice(GetParam().device);
  }
  // The CUDA kernels on the CPU take milliseconds a step: the last three cases are not for them,
  // three alone are in every order of threads, and few positions are decoded.
  bool slow() const { return GetParam().device.name == "cuda_stand_in"; }
  std::span<const Case> Cases() const {
    if (InPlainOrder(GetParam().device)) return std::span(kCases).first(3);
    return std::span(kCases).first(slow() ? 6 : std::size(kCases));
  }
  int64_t FirstDecoded(const Case& c) const { return slow() ? c.tokens - 2 : 0; }
  SoftmaxInputs Inputs(const Case& c, uint32_t seed) const {
    return {{c.kv_heads, c.key, c.value, GetParam().dtype}, c.heads, c.window, c.tokens, seed};
  }
  static OwnedPages Pages(Device& device, const SoftmaxInputs& inputs) {
    return {device, inputs.shape, inputs.tokens};
  }
  // Those before `first` are there.
  static OwnedPages Pages(Device& device, const SoftmaxInputs& inputs, int64_t first) {
    OwnedPages pages = Pages(device, inputs);
    inputs.Fill(pages, first);
    return pages;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeTestDevice("reference");
};

template <typename A, typename B>
void ExpectNear(const std::vector<A>& got, const std::vector<B>& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << "element " << i;
}

// Of the inputs of a case by the definition, quadratic in float64: the same for all instruction
// sets, and so computed once.
const std::vector<double>& Wanted(const Case& c, const SoftmaxInputs& inputs, uint32_t seed) {
  static std::map<std::tuple<const Case*, DType, uint32_t>, std::vector<double>> wanted;
  const auto [values, added] = wanted.try_emplace({&c, inputs.shape.dtype, seed});
  if (added) values->second = inputs.Quadratic();
  return values->second;
}

TEST_P(SoftmaxAttentionTest, DecodeIsSoftmaxAttentionOverAllPositions) {
  for (const Case& c : Cases()) {
    const SoftmaxInputs inputs = Inputs(c, 1);
    const int64_t first = FirstDecoded(c);
    const OwnedPages pages = Pages(*device_, inputs, first);
    const std::vector<double>& all = Wanted(c, inputs, 1);
    ExpectNear(inputs.Decode(*device_, pages, first),
               std::vector(all.begin() + first * c.heads * c.value, all.end()), inputs.Bound());
  }
}

TEST_P(SoftmaxAttentionTest, DecodeAgreesWithTheReference) {
  const Case& c = kCases[0];
  const SoftmaxInputs inputs = Inputs(c, 2);
  const int64_t first = slow() ? c.tokens - 20 : 0;
  const OwnedPages got = Pages(*device_, inputs, first);
  const OwnedPages want = Pages(*reference_, inputs, first);
  ExpectNear(inputs.Decode(*device_, got, first), inputs.Decode(*reference_, want, first),
             inputs.Bound());
  EXPECT_TRUE(got == want) << "pages differ";
}

// So many positions that a GPU's parts take several tiles each, and some one more than others.
TEST_P(SoftmaxAttentionTest, DecodeReadsALongContext) {
  const Case c{3, 1, 6, 9, 40, 17'000};
  const SoftmaxInputs inputs = Inputs(c, 9);
  const int64_t first = c.tokens - 2;
  const OwnedPages pages = Pages(*device_, inputs, first);
  ExpectNear(inputs.Decode(*device_, pages, first), inputs.Quadratic(first), inputs.Bound());
}

TEST_P(SoftmaxAttentionTest, PrefillIsSoftmaxAttentionOverAllPositions) {
  for (const Case& c : Cases()) {
    const SoftmaxInputs inputs = Inputs(c, 3);
    const OwnedPages pages = Pages(*device_, inputs);
    std::vector<float> out(static_cast<size_t>(inputs.OutSize()), NAN);
    inputs.Prefill(*device_, pages, 0, c.tokens, out);
    ExpectNear(out, Wanted(c, inputs, 3), inputs.PrefillBound(*device_));
  }
}

// Not even those that end within a tile. What comes after a position does not change its bits, or
// chunks would.
TEST_P(SoftmaxAttentionTest, ChunksChangeNoBitsNorDoThreads) {
  const std::unique_ptr<Device> one_thread = MakeTestDevice(GetParam().device, 1);
  std::mt19937 random(4);
  for (const Case& c : Cases()) {
    const SoftmaxInputs inputs = Inputs(c, 4);
    const OwnedPages pages = Pages(*one_thread, inputs);
    std::vector<float> whole(static_cast<size_t>(inputs.OutSize()), NAN);
    inputs.Prefill(*one_thread, pages, 0, c.tokens, whole);
    for (int round = slow() ? 2 : 0; round < 3; ++round) {
      const OwnedPages other = Pages(*device_, inputs);
      std::vector<float> out(static_cast<size_t>(inputs.OutSize()), NAN);
      for (int64_t first = 0; first < c.tokens;) {
        const int64_t longest = std::min<int64_t>(c.tokens - first, 100);
        const int64_t count =
            round == 0 ? c.tokens : std::uniform_int_distribution<int64_t>(1, longest)(random);
        inputs.Prefill(*device_, other, first, count, out);
        first += count;
      }
      EXPECT_EQ(out, whole);
      EXPECT_TRUE(other == pages);
    }
  }
}

TEST_P(SoftmaxAttentionTest, PagesAreEqualHoweverPositionsCame) {
  for (const Case& c : Cases()) {
    const SoftmaxInputs inputs = Inputs(c, 5);
    const int64_t first = FirstDecoded(c);
    const OwnedPages decoded = Pages(*device_, inputs, first);
    inputs.Decode(*device_, decoded, first);
    const OwnedPages prefilled = Pages(*device_, inputs);
    std::vector<float> out(static_cast<size_t>(inputs.OutSize()));
    inputs.Prefill(*device_, prefilled, 0, c.tokens, out);
    EXPECT_TRUE(decoded == prefilled);
  }
}

TEST_P(SoftmaxAttentionTest, ASessionHasTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  const std::unique_ptr<Device> one_thread = MakeTestDevice(GetParam().device, 1);
  for (const Case& c : Cases()) {
    // Sessions of different lengths, all fed the last token of their own inputs, and in their midst
    // a row of nobody.
    std::vector<OwnedPages> owned;
    std::vector<KeyValuePages> sessions;
    std::vector<int64_t> positions;
    std::vector<float> alone, q, position_scores, k, v;
    const auto append = [](std::vector<float>& to, std::span<const float> from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    for (uint32_t n = 0; n < 6; ++n) {
      const bool nobody = n == 2;
      const SoftmaxInputs inputs = Inputs(
          {c.heads, c.kv_heads, c.key, c.value, c.window, 1 + n * (c.tokens - 1) / 5}, 6 + n);
      const int64_t last = inputs.tokens - 1;
      append(q, inputs.Q(last, 1));
      append(position_scores, inputs.PositionScores(last, 1));
      append(k, inputs.K(last, 1));
      append(v, inputs.V(last, 1));
      positions.push_back(nobody ? -1 : last);
      owned.push_back(Pages(*device_, inputs, last));
      sessions.push_back(nobody ? KeyValuePages() : owned.back().View());
      if (nobody) {
        alone.resize(alone.size() + static_cast<size_t>(c.heads * c.value));
        continue;
      }
      append(alone, inputs.Decode(*one_thread, Pages(*one_thread, inputs, last), last));
    }
    // Where a GPU has far more to do, blocks share it in another way.
    const size_t rows = slow() ? sessions.size() : 300;
    sessions.resize(rows);
    positions.resize(rows);
    q.resize(rows * static_cast<size_t>(c.heads * c.key));
    position_scores.resize(rows * static_cast<size_t>(c.heads * c.window));
    k.resize(rows * static_cast<size_t>(c.kv_heads * c.key));
    v.resize(rows * static_cast<size_t>(c.kv_heads * c.value));
    alone.resize(rows * static_cast<size_t>(c.heads * c.value));
    const KeyValueShape shape{c.kv_heads, c.key, c.value, GetParam().dtype};
    EXPECT_EQ(SoftmaxDecodeStep(*device_, shape, c.heads, c.window, sessions, positions, q,
                                position_scores, k, v),
              alone);
  }
}

// The pages round as ToBFloat16 does: ties, subnormals, overflow to infinity, NaN.
TEST_P(SoftmaxAttentionTest, PagesHoldWhatTheReferencesHold) {
  const Case c{1, 1, 20, 40, 1, 1};
  SoftmaxInputs inputs = Inputs(c, 8);
  const float odd[] = {NAN,
                       std::bit_cast<float>(0x7fffffffU),
                       INFINITY,
                       -std::numeric_limits<float>::max(),
                       std::bit_cast<float>(0x00008001U),
                       std::bit_cast<float>(0x3f808000U),
                       std::bit_cast<float>(0x3f818000U)};
  std::copy(std::begin(odd), std::end(odd), inputs.v.begin());
  std::copy(std::begin(odd), std::end(odd), inputs.v.end() - std::ssize(odd));
  std::copy(std::begin(odd), std::end(odd), inputs.k.end() - std::ssize(odd));
  const OwnedPages got = Pages(*device_, inputs);
  const OwnedPages want = Pages(*reference_, inputs);
  inputs.Decode(*device_, got);
  inputs.Decode(*reference_, want);
  EXPECT_TRUE(got == want);
}

// The maximum moves from tile to tile, up and down by hundreds.
TEST_P(SoftmaxAttentionTest, LargeScoresDoNotOverflow) {
  const Case c{2, 1, 8, 16, 30, 700};
  SoftmaxInputs inputs = Inputs(c, 7);
  for (float& x : inputs.q) x *= 100;
  for (float& score : inputs.position_scores) score *= 200;
  const OwnedPages pages = Pages(*device_, inputs);
  std::vector<float> out(static_cast<size_t>(inputs.OutSize()), NAN);
  inputs.Prefill(*device_, pages, 0, c.tokens, out);
  ExpectNear(out, inputs.Quadratic(), inputs.PrefillBound(*device_));
  const OwnedPages other = Pages(*device_, inputs, c.tokens - 5);
  ExpectNear(inputs.Decode(*device_, other, c.tokens - 5), inputs.Quadratic(c.tokens - 5),
             inputs.Bound());
}

INSTANTIATE_TEST_SUITE_P(Isa, SoftmaxAttentionTest, ::testing::ValuesIn(AllOpCases()), kCaseName);

TEST(KeyValueShapeTest, TellsWhereThingsLie) {
  constexpr KeyValueShape kShape{3, 5, 7, DType::kBFloat16};
  EXPECT_EQ(kShape.KeyIndex(0, 0, 0), 0);
  EXPECT_EQ(kShape.KeyIndex(0, 15, 1), 16 + 15);
  EXPECT_EQ(kShape.KeyIndex(0, 17, 2), 16 * 5 + 2 * 16 + 1);
  EXPECT_EQ(kShape.KeyIndex(2, 255, 4), 3 * 256 * 5 - 1);
  EXPECT_EQ(kShape.ValueIndex(2, 255) + 6, 3 * 256 * 7 - 1);
  EXPECT_EQ(kShape.ValueOffset(), 3 * 256 * 5 * 2);
  EXPECT_EQ(kShape.LayerBytes(), 3 * 256 * 12 * 2);
}

TEST(SoftmaxAttentionCheckTest, NamesWhatIsWrong) {
  const auto cpu = MakeTestDevice("cpu");
  const KeyValueShape shape{1, 4, 2, DType::kFloat32};
  const SoftmaxInputs inputs(shape, 2, 3, 2, 1);
  const OwnedPages pages(*cpu, shape, 300);
  std::vector<float> out(8);
  const auto prefill = [&](const KeyValueShape& s, int64_t offset, const KeyValuePages& view,
                           int64_t position) {
    return std::string(SoftmaxPrefillAttention(*cpu, {s,
                                                      offset,
                                                      view,
                                                      position,
                                                      {inputs.q.data(), {2, 2, 4}},
                                                      {inputs.position_scores.data(), {2, 2, 3}},
                                                      {inputs.k.data(), {2, 1, 4}},
                                                      {inputs.v.data(), {2, 1, 2}},
                                                      {out.data(), {2, 2, 2}}})
                           .message());
  };
  EXPECT_EQ(prefill(shape, 0, pages.View(), 510), "");
  EXPECT_THAT(prefill(shape, 0, pages.View(), 511),
              HasSubstr("position 512 lies beyond the session's 2 pages, expected 3 of 256"));
  EXPECT_THAT(prefill(shape, 0, pages.View(), -1), HasSubstr("position is -1"));
  EXPECT_THAT(prefill(shape, 0, {}, 0), HasSubstr("the session's 0 pages"));
  EXPECT_THAT(prefill(shape, 60, pages.View(), 0), HasSubstr("layer_offset is 60"));
  EXPECT_THAT(prefill({1, 4, 0}, 0, pages.View(), 0), HasSubstr("0 values"));
  EXPECT_THAT(prefill({1, 4, 3}, 0, pages.View(), 0), HasSubstr("v is [2,1,2], expected [2,1,3]"));
  EXPECT_THAT(prefill({1, 4, 2, DType::kInt8}, 0, pages.View(), 0), HasSubstr("int8"));
  void* holes[2] = {pages.View().pages[0], nullptr};
  EXPECT_THAT(prefill(shape, 0, {holes, 2}, 255), HasSubstr("page 1 is null"));
  holes[1] = static_cast<std::byte*>(pages.View().pages[1]) + 4;
  EXPECT_THAT(prefill(shape, 0, {holes, 2}, 255), HasSubstr("page 1 does not start"));

  const KeyValuePages session = pages.View();
  const int64_t position = 512;
  const SoftmaxDecodeAttentionArgs decode{shape,
                                          0,
                                          {&session, {1}},
                                          {&position, {1}},
                                          {inputs.q.data(), {1, 2, 4}},
                                          {inputs.position_scores.data(), {1, 2, 3}},
                                          {inputs.k.data(), {1, 1, 4}},
                                          {inputs.v.data(), {1, 1, 2}},
                                          {out.data(), {1, 2, 2}}};
  EXPECT_THAT(std::string(SoftmaxDecodeAttention(*cpu, decode).message()),
              HasSubstr("position 512 lies beyond"));
}

}  // namespace
}  // namespace tvq
