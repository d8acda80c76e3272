#include "kernels/ops/attention/vq_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

struct EncoderCase {
  int64_t heads, kv_heads, codes, value, tokens;
  CodeSumsShape Shape() const { return {kv_heads, codes, value}; }
};

// Own and shared key/value heads; codes and values of one, of no whole vector, of a tile and a bit;
// codes that no position has.
constexpr EncoderCase kEncoderCases[] = {{1, 1, 1, 1, 1},      {3, 3, 7, 13, 70},
                                         {4, 2, 33, 64, 130},  {6, 1, 128, 100, 50},
                                         {2, 1, 300, 270, 90}, {1, 1, 16, 5, 200}};

// What a layer would give attention for a text.
struct Text {
  Text(const EncoderCase& c, uint32_t seed)
      : shape(c.Shape()),
        heads(c.heads),
        tokens(c.tokens),
        codes(RandomIndices(c.tokens * c.kv_heads, c.codes, seed)),
        v(RandomFloats(c.tokens * c.kv_heads * c.value, seed + 1)),
        scores(RandomFloats(c.tokens * c.heads * c.codes, seed + 2, 2)) {}

  // The definition: softmax attention to every position by the score of its code.
  std::vector<double> Quadratic() const {
    std::vector<double> out(static_cast<size_t>(tokens * heads * shape.value));
    for (int64_t i = 0; i < tokens * heads; ++i) {
      const int64_t g = i % heads / (heads / shape.kv_heads);
      double* row = out.data() + i * shape.value;
      double total = 0;
      for (int64_t j = 0; j < tokens; ++j) {
        const int32_t code = codes[static_cast<size_t>(j * shape.kv_heads + g)];
        const double w = std::exp(double{scores[static_cast<size_t>(i * shape.codes + code)]});
        total += w;
        const float* value = v.data() + (j * shape.kv_heads + g) * shape.value;
        for (int64_t c = 0; c < shape.value; ++c) row[c] += w * value[c];
      }
      for (int64_t c = 0; c < shape.value; ++c) row[c] /= total;
    }
    return out;
  }

  // Rounding, relative to the largest |v|, for an output is an average of v with weights above 0:
  // in numerator and denominator each an exponential is good to 4 roundings, the difference it is
  // of to one of its size, U, n and products are rounded once, and the sum over codes is a chain;
  // then the weights' division.
  double Bound() const {
    double largest = 0, score = 0;
    for (const float x : v) largest = std::max(largest, double{std::abs(x)});
    for (const float x : scores) score = std::max(score, double{std::abs(x)});
    const auto chain = static_cast<double>(shape.codes + 16);
    return (2 * (chain + 4 + 2 * score + 3) + 2) * kRounding * largest;
  }

  CodeSumsShape shape;
  int64_t heads, tokens;
  std::vector<int32_t> codes;
  std::vector<float> v, scores;
};

// Sums on a device.
class OwnedSums {
 public:
  OwnedSums(Device& device, const CodeSumsShape& s)
      : sum_(device, std::vector<float>(static_cast<size_t>(s.kv_heads * s.codes * s.value))),
        carry_(device, std::vector<float>(static_cast<size_t>(s.kv_heads * s.codes * s.value))),
        count_(device, std::vector<int64_t>(static_cast<size_t>(s.kv_heads * s.codes))) {}

  CodeSums View() const { return {sum_.data(), carry_.data(), count_.data()}; }
  bool operator==(const OwnedSums& other) const {
    return sum_.Read() == other.sum_.Read() && carry_.Read() == other.carry_.Read() &&
           count_.Read() == other.count_.Read();
  }

 private:
  DeviceArray<float> sum_, carry_;
  DeviceArray<int64_t> count_;
};

template <typename T>
std::span<const T> Rows(const std::vector<T>& all, int64_t width, int64_t first, int64_t count) {
  return std::span(all).subspan(static_cast<size_t>(first * width),
                                static_cast<size_t>(count * width));
}

// Positions [first, first + count).
void Collect(Device& device, const Text& text, int64_t first, int64_t count, OwnedSums& sums) {
  const int64_t heads = text.shape.kv_heads;
  const DeviceArray<int32_t> codes(device, Rows(text.codes, heads, first, count));
  const DeviceArray<float> v(device, Rows(text.v, heads * text.shape.value, first, count));
  const absl::Status status = VqCollect(device, {text.shape,
                                                 sums.View(),
                                                 {codes.data(), {count, heads}},
                                                 {v.data(), {count, heads, text.shape.value}}});
  ASSERT_TRUE(status.ok()) << status;
}

std::vector<float> Attend(Device& device, const Text& text, int64_t first, int64_t count,
                          const OwnedSums& sums) {
  const DeviceArray<float> scores(device,
                                  Rows(text.scores, text.heads * text.shape.codes, first, count));
  const DeviceArray<float> out(
      device, std::vector<float>(static_cast<size_t>(count * text.heads * text.shape.value), NAN));
  const absl::Status status =
      VqEncoderAttention(device, {text.shape,
                                  sums.View(),
                                  {scores.data(), {count, text.heads, text.shape.codes}},
                                  {out.data(), {count, text.heads, text.shape.value}}});
  EXPECT_TRUE(status.ok()) << status;
  return out.Read();
}

std::vector<float> Encode(Device& device, const Text& text) {
  OwnedSums sums(device, text.shape);
  Collect(device, text, 0, text.tokens, sums);
  return Attend(device, text, 0, text.tokens, sums);
}

class VqEncoderTest : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override { device_ = MakeTestDevice(GetParam()); }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeTestDevice("reference");
};

TEST_P(VqEncoderTest, IsSoftmaxAttentionToEveryPosition) {
  for (const EncoderCase& c : kEncoderCases) {
    const Text text(c, 1);
    const std::vector<double> want = text.Quadratic();
    const double bound = text.Bound();
    for (Device* const device : {device_.get(), reference_.get()}) {
      const std::vector<float> got = Encode(*device, text);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << i;
    }
  }
}

TEST_P(VqEncoderTest, HowATextIsCutChangesNoBits) {
  const std::unique_ptr<Device> one_thread = MakeTestDevice(GetParam(), 1);
  for (const EncoderCase& c : {kEncoderCases[2], kEncoderCases[4]}) {
    const Text text(c, 2);
    OwnedSums whole(*device_, text.shape), pieces(*device_, text.shape);
    Collect(*device_, text, 0, c.tokens, whole);
    Collect(*device_, text, 0, 1, pieces);
    Collect(*device_, text, 1, 37, pieces);
    Collect(*device_, text, 38, c.tokens - 38, pieces);
    EXPECT_TRUE(whole == pieces);
    const std::vector<float> all = Attend(*device_, text, 0, c.tokens, whole);
    EXPECT_EQ(Encode(*one_thread, text), all);
    for (const int64_t row : {int64_t{0}, int64_t{63}, c.tokens - 1}) {
      const std::vector<float> alone = Attend(*device_, text, row, 1, whole);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                             all.begin() + row * static_cast<int64_t>(alone.size())));
    }
  }
}

// A code that no position has decides nothing, whatever its score.
TEST_P(VqEncoderTest, AnUnusedCodeIsNotThere) {
  Text text({2, 1, 20, 9, 30}, 3);
  for (int32_t& code : text.codes) code = code % 19;
  const std::vector<float> want = Encode(*device_, text);
  for (size_t i = 19; i < text.scores.size(); i += 20) text.scores[i] = 1e30F;
  EXPECT_EQ(Encode(*device_, text), want);
}

INSTANTIATE_TEST_SUITE_P(Isa, VqEncoderTest, ::testing::ValuesIn(CpuDevices()), kCaseName);

TEST(VqEncoderCheckTest, NamesWhatIsWrong) {
  const auto cpu = MakeTestDevice("cpu");
  Text text({2, 1, 4, 3, 5}, 1);
  OwnedSums sums(*cpu, text.shape);
  const auto collect = [&](const CodeSumsShape& shape, const CodeSums& view) {
    return std::string(
        VqCollect(*cpu, {shape, view, {text.codes.data(), {5, 1}}, {text.v.data(), {5, 1, 3}}})
            .message());
  };
  EXPECT_THAT(collect({1, 0, 3}, sums.View()), testing::HasSubstr("0 codes"));
  EXPECT_EQ(collect({1, 4, 3}, {}), "VqCollect: sums lack memory");
  EXPECT_EQ(collect({1, 4, 2}, sums.View()), "VqCollect: v is [5,1,3], expected [5,1,2]");
  for (const int32_t code : {-1, 4}) {
    text.codes[2] = code;
    EXPECT_EQ(collect({1, 4, 3}, sums.View()),
              absl::StrCat("VqCollect: codes[2,0] is ", code, ", expected 0 to 3"));
  }
  EXPECT_TRUE(sums == OwnedSums(*cpu, text.shape)) << "nothing is added where a code is wrong";
  std::vector<float> out(30);
  const VqEncoderAttentionArgs args{
      {1, 5, 3}, sums.View(), {text.scores.data(), {5, 2, 4}}, {out.data(), {5, 2, 3}}};
  EXPECT_EQ(std::string(VqEncoderAttention(*cpu, args).message()),
            "VqEncoderAttention: code_scores is [5,2,4], expected [5,2,5]");
  const auto cuda = MakeCudaStandIn("forwards");
  EXPECT_EQ(VqEncoderAttention(*cuda, args).ToString(),
            "UNIMPLEMENTED: VqEncoderAttention: the backend 'cuda' has no such op");
}

}  // namespace
}  // namespace tvq
