#include "kernels/ops/attention/vq_attention.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <tuple>

#include "tests/kernels/ops/attention/vq_sizes.h"
#include "tests/kernels/ops/attention/vq_state.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

struct VqCase : OpCase {
  VqRead read = VqRead::kExact;
};

std::string NameOf(const VqCase& c) {
  return NameOf(static_cast<const OpCase&>(c)) + (c.read == VqRead::kInt8 ? "_copy" : "");
}
void PrintTo(const VqCase& c, std::ostream* out) { *out << NameOf(c); }

std::vector<VqCase> VqCases() {
  std::vector<VqCase> cases;
  for (const OpCase& c : AllOpCases()) {
    cases.push_back({c});
    cases.push_back({c, VqRead::kInt8});
  }
  return cases;
}

class VqAttentionTest : public ::testing::TestWithParam<VqCase> {
 protected:
  VqShape Shape(const VqSizes& c) const {
    return {c.kv_heads, c.codes, c.window, c.value, GetParam().dtype, GetParam().read};
  }
  // The CUDA kernels on the CPU take milliseconds a step: the last five cases are not
  // for them, two alone are in every order of threads, and few positions are decoded.
  bool slow() const { return GetParam().device.name == "cuda_stand_in"; }
  std::span<const VqSizes> Cases() const {
    if (InPlainOrder(GetParam().device)) return std::span(kVqSizes).first(2);
    return std::span(kVqSizes).first(slow() ? 5 : std::size(kVqSizes));
  }
  // With all rows read, and without some of them.
  std::vector<std::pair<VqSizes, float>> SkippingCases() const {
    std::vector<std::pair<VqSizes, float>> cases;
    for (const VqSizes& c : Cases()) {
      cases.emplace_back(c, 0.0F);
      cases.emplace_back(c, 0.05F);
    }
    return cases;
  }
  int64_t FirstDecoded(const VqSizes& c) const { return slow() ? c.tokens - 2 : 0; }
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam().device);
    device_ = MakeTestDevice(GetParam().device);
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeTestDevice("reference");
};

template <typename A, typename B>
void ExpectNear(const std::vector<A>& got, const std::vector<B>& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << "element " << i;
}

// All positions of the inputs of a case by the definition, quadratic in float64: the same for all
// instruction sets and reads, and so computed once.
const std::vector<double>& Wanted(const VqSizes& c, const VqInputs& inputs, uint32_t seed) {
  static std::map<std::tuple<const VqSizes*, DType, uint32_t>, std::vector<double>> wanted;
  const auto [values, added] = wanted.try_emplace({&c, inputs.shape.value_dtype, seed});
  if (added) values->second = inputs.Quadratic();
  return values->second;
}

TEST_P(VqAttentionTest, DecodeIsSoftmaxAttentionOverAllPositions) {
  for (const VqSizes& c : Cases()) {
    const VqInputs inputs(Shape(c), c.heads, c.tokens, 1);
    OwnedState state(*device_, inputs.shape);
    // U is a sum of up to `tokens` values that is rounded to float32 once.
    const std::vector<double>& all = Wanted(c, inputs, 1);
    const auto first = all.begin() + FirstDecoded(c) * c.heads * c.value;
    ExpectNear(inputs.Decode(*device_, state, FirstDecoded(c)), std::vector(first, all.end()),
               inputs.DecodeBound() + inputs.CopyBound());
  }
}

TEST_P(VqAttentionTest, DecodeMatchesReference) {
  for (const VqSizes& c : Cases()) {
    const VqInputs inputs(Shape(c), c.heads, c.tokens, 2);
    OwnedState got(*device_, inputs.shape);
    OwnedState want(*reference_, inputs.shape);
    ExpectNear(inputs.Decode(*device_, got, FirstDecoded(c)),
               inputs.Decode(*reference_, want, FirstDecoded(c)), inputs.DecodeBound());
    EXPECT_TRUE(got == want) << "states differ";
  }
}

TEST_P(VqAttentionTest, StatesAreEqualHoweverPositionsCame) {
  for (const VqSizes& c : Cases()) {
    const VqInputs inputs(Shape(c), c.heads, c.tokens, 3);
    OwnedState decoded(*device_, inputs.shape);
    inputs.Decode(*device_, decoded, FirstDecoded(c));
    std::vector<float> out(static_cast<size_t>(inputs.OutSize()));
    for (const DType factors : kFactors) {
      OwnedState prefilled(*device_, inputs.shape);
      inputs.Prefill(*device_, prefilled, 0, c.tokens, out, factors);
      EXPECT_TRUE(decoded == prefilled) << Name(factors);
    }
    OwnedState pieces(*device_, inputs.shape);
    inputs.Prefill(*device_, pieces, 0, 3, out);
    inputs.Prefill(*device_, pieces, 3, 40, out);
    inputs.Prefill(*device_, pieces, 43, c.tokens - 43, out);
    EXPECT_TRUE(decoded == pieces);
  }
}

TEST_P(VqAttentionTest, PrefillIsSoftmaxAttentionInWhateverChunks) {
  std::mt19937 random(4);
  for (const VqSizes& c : Cases()) {
    const VqInputs inputs(Shape(c), c.heads, c.tokens, 4);
    const std::vector<double>& want = Wanted(c, inputs, 4);
    for (int round = 0; round < 6; ++round) {
      const DType factors = kFactors[round % 2];
      OwnedState state(*device_, inputs.shape);
      std::vector<float> out(static_cast<size_t>(inputs.OutSize()), NAN);
      int64_t first = 0;
      while (first < c.tokens) {
        const int64_t longest = std::min<int64_t>(c.tokens - first, 100);
        const int64_t count =
            round < 2 ? c.tokens : std::uniform_int_distribution<int64_t>(1, longest)(random);
        inputs.Prefill(*device_, state, first, count, out, factors);
        first += count;
      }
      ExpectNear(out, want, inputs.PrefillBound(factors));
    }
  }
}

// Whatever rounding does to the weights, they sum to one.
TEST_P(VqAttentionTest, PrefillOfEqualValuesIsThatValue) {
  // No code of so many positions that bfloat16 has not their number.
  const VqSizes c{2, 1, 16, 70, 48, 200};
  VqInputs inputs(Shape(c), c.heads, c.tokens, 12);
  std::fill(inputs.v.begin(), inputs.v.end(), 1.0F);
  for (const DType factors : kFactors) {
    OwnedState state(*device_, inputs.shape);
    std::vector<float> out(static_cast<size_t>(inputs.OutSize()), NAN);
    inputs.Prefill(*device_, state, 0, c.tokens, out, factors);
    ExpectNear(out, std::vector<float>(out.size(), 1.0F), inputs.PrefillBound(DType::kFloat32));
  }
}

TEST_P(VqAttentionTest, AScoreThatIsNoNumberStaysWithItsQuery) {
  const VqSizes c{2, 1, 16, 7, 20, 80};
  VqInputs inputs(Shape(c), c.heads, c.tokens, 13);
  constexpr int64_t kQuery = 66, kHead = 1;
  std::fill_n(inputs.code_scores.begin() + (kQuery * c.heads + kHead) * c.codes, c.codes, NAN);
  for (const DType factors : kFactors) {
    OwnedState state(*device_, inputs.shape);
    std::vector<float> out(static_cast<size_t>(inputs.OutSize()));
    inputs.Prefill(*device_, state, 0, c.tokens, out, factors);
    for (int64_t i = 0; i < inputs.OutSize(); ++i) {
      const bool hit = i / c.value == kQuery * c.heads + kHead;
      ASSERT_EQ(std::isnan(out[static_cast<size_t>(i)]), hit) << "element " << i;
    }
  }
}

TEST_P(VqAttentionTest, ChunksThatEndAtSpansDoNotChangeBits) {
  const std::unique_ptr<Device> one_thread = MakeTestDevice(GetParam().device, 1);
  constexpr VqSizes kLong[] = {{3, 1, 7, 33, 9, 530}, {1, 1, 20, 300, 20, 600}};
  for (const VqSizes& c : std::span(kLong).first(slow() ? 1 : 2)) {
    const VqInputs inputs(Shape(c), c.heads, c.tokens, 5);
    for (const DType factors : kFactors) {
      const auto prefill = [&](Device& device, int64_t chunk) {
        OwnedState state(device, inputs.shape);
        std::vector<float> out(static_cast<size_t>(inputs.OutSize()), NAN);
        for (int64_t first = 0; first < c.tokens; first += chunk) {
          inputs.Prefill(device, state, first, std::min(chunk, c.tokens - first), out, factors);
        }
        return out;
      };
      const auto whole = prefill(*device_, c.tokens);
      EXPECT_EQ(prefill(*device_, kVqPrefillSpan), whole);
      EXPECT_EQ(prefill(*device_, 2 * kVqPrefillSpan), whole);
      EXPECT_EQ(prefill(*one_thread, c.tokens), whole);
      // What comes after a position does not change its bits.
      for (const int64_t end : {100, 101}) {
        OwnedState state(*device_, inputs.shape);
        std::vector<float> out(static_cast<size_t>(inputs.OutSize()), NAN);
        inputs.Prefill(*device_, state, 0, end, out, factors);
        EXPECT_TRUE(std::equal(out.begin(), out.begin() + end * c.heads * c.value, whole.begin()));
      }
    }
  }
}

TEST_P(VqAttentionTest, ASessionHasTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  const std::unique_ptr<Device> one_thread = MakeTestDevice(GetParam().device, 1);
  for (const auto& [c, skip_mass] : SkippingCases()) {
    // Sessions at different positions, all fed the last token of their own inputs.
    constexpr int64_t kSessions = 5;
    const VqShape shape = Shape(c);
    std::vector<VqInputs> inputs;
    std::vector<OwnedState> states;
    std::vector<std::vector<float>> alone;
    std::vector<VqState> views;
    std::vector<int64_t> positions;
    std::vector<float> code_scores, position_scores, v;
    std::vector<int32_t> codes;
    const auto append = [](auto& to, const auto& from, int64_t count) {
      to.insert(to.end(), from.end() - count, from.end());
    };
    for (int64_t n = 0; n < kSessions; ++n) {
      const int64_t tokens = 1 + n * (c.tokens - 1) / (kSessions - 1);
      inputs.emplace_back(shape, c.heads, tokens, 6 + static_cast<uint32_t>(n));
      states.emplace_back(*device_, shape);
      inputs.back().Append(*device_, states.back(), 0, tokens - 1);
      OwnedState whole(*one_thread, shape);
      const auto outs = inputs.back().Decode(*one_thread, whole, tokens - 1, skip_mass);
      alone.emplace_back(outs.end() - c.heads * c.value, outs.end());
      positions.push_back(tokens - 1);
      const VqInputs& last = inputs.back();
      append(code_scores, last.code_scores, c.heads * c.codes);
      append(position_scores, last.position_scores, c.heads * c.window);
      append(codes, last.codes, c.kv_heads);
      append(v, last.v, c.kv_heads * c.value);
    }
    views.reserve(states.size() + 1);
    for (OwnedState& state : states) views.push_back(state.View());
    // A row of nobody fills up the batch.
    views.emplace_back();
    positions.push_back(0);
    append(code_scores, inputs[0].code_scores, c.heads * c.codes);
    append(position_scores, inputs[0].position_scores, c.heads * c.window);
    append(codes, inputs[0].codes, c.kv_heads);
    append(v, inputs[0].v, c.kv_heads * c.value);
    alone.emplace_back(static_cast<size_t>(c.heads * c.value), 0.0F);
    const std::vector<float> out = DecodeStep(*device_, shape, c.heads, views, positions,
                                              code_scores, position_scores, codes, v, skip_mass);
    for (size_t n = 0; n < alone.size(); ++n) {
      EXPECT_TRUE(std::equal(alone[n].begin(), alone[n].end(),
                             out.begin() + int64_t(n) * c.heads * c.value))
          << "session " << n;
    }
  }
}

// A GPU may divide the work of hundreds in another way, that of long values most of all: alone in
// narrow blocks and among hundreds in wide ones, of all columns or of half of them. On the stand-in
// kManySplits takes wide ones both times, but alone several that share the splits. All sessions but
// one are nobody.
TEST_P(VqAttentionTest, ASessionHasTheSameBitsAmongHundreds) {
  constexpr VqSizes kManySplits{2, 2, 90, 40, 516, 150}, kLong{1, 1, 90, 40, 516, 150},
      kLongAndABit{1, 1, 70, 110, 1030, 160}, kTwoPieces{1, 1, 20, 40, 1540, 70},
      kTwoPiecesAndABit{1, 1, 20, 40, 1542, 70};
  std::vector<VqSizes> sizes{Cases()[0],  Cases()[1], Cases().back(), kLongAndABit,
                             kManySplits, kLong,      kTwoPieces,     kTwoPiecesAndABit};
  if (InPlainOrder(GetParam().device)) sizes.resize(4);
  for (const VqSizes& c : sizes) {
    constexpr size_t kRows = 400;
    const VqShape shape = Shape(c);
    const VqInputs inputs(shape, c.heads, c.tokens, 11);
    OwnedState alone(*device_, shape), among(*device_, shape);
    inputs.Append(*device_, among, 0, c.tokens - 1);
    const auto outs = inputs.Decode(*device_, alone, c.tokens - 1, 0);
    const auto rows_of = [](const auto& from, int64_t count) {
      std::remove_cvref_t<decltype(from)> rows;
      for (size_t n = 0; n < kRows; ++n) rows.insert(rows.end(), from.end() - count, from.end());
      return rows;
    };
    std::vector<VqState> views(kRows);
    views[0] = among.View();
    std::vector<int64_t> positions(kRows);
    positions[0] = c.tokens - 1;
    const std::vector<float> out = DecodeStep(
        *device_, shape, c.heads, views, positions, rows_of(inputs.code_scores, c.heads * c.codes),
        rows_of(inputs.position_scores, c.heads * c.window), rows_of(inputs.codes, c.kv_heads),
        rows_of(inputs.v, c.kv_heads * c.value), 0);
    EXPECT_TRUE(std::equal(outs.end() - c.heads * c.value, outs.end(), out.begin()));
    EXPECT_TRUE(alone == among) << "states differ";
    EXPECT_TRUE(std::all_of(out.begin() + c.heads * c.value, out.end(),
                            [](float value) { return value == 0; }));
  }
}

// The window rounds as ToBFloat16 does: ties, subnormals, overflow to infinity, NaN.
TEST_P(VqAttentionTest, TheWindowHoldsWhatTheReferenceHolds) {
  constexpr int64_t kValues = 40;
  const VqShape shape{1, 2, 3, kValues, GetParam().dtype, GetParam().read};
  std::vector<float> v = RandomFloats(kValues, 8);
  v[0] = v[37] = NAN;
  v[1] = v[38] = std::bit_cast<float>(0x7fffffffU);
  v[2] = INFINITY;
  v[3] = -std::numeric_limits<float>::max();
  v[4] = std::bit_cast<float>(0x00008001U);
  v[5] = std::bit_cast<float>(0x3f808000U);
  v[6] = std::bit_cast<float>(0x3f818000U);
  OwnedState got(*device_, shape);
  OwnedState want(*reference_, shape);
  const auto append = [&](Device& device, OwnedState& state) {
    const DeviceArray<int32_t> code(device, std::vector<int32_t>{1});
    const DeviceArray<float> value(device, v);
    return Append(device, shape, state, 0, 1, code, value);
  };
  ASSERT_TRUE(append(*device_, got).ok());
  ASSERT_TRUE(append(*reference_, want).ok());
  EXPECT_EQ(got.window_value(), want.window_value());
  // What is not a number makes all that is computed from the row none.
  if (shape.read == VqRead::kInt8) {
    EXPECT_TRUE(std::isnan(got.copy_scales(1)[0]));
    EXPECT_TRUE(std::isnan(want.copy_scales(1)[0]));
    EXPECT_EQ(got.copied_rows(1), want.copied_rows(1));
  }
}

// What a restored state is given is what the ops leave.
TEST_P(VqAttentionTest, TheCopyIsThatOfTheExactRows) {
  if (GetParam().read == VqRead::kExact) return;  // and has no copy
  for (const VqSizes& c : Cases()) {
    VqInputs inputs(Shape(c), c.heads, c.tokens, 9);
    // Columns without a value, with values that vanish beside the others, and too small for a copy.
    for (size_t i = 0; i < inputs.v.size(); ++i) {
      const auto column = static_cast<int64_t>(i) % c.value;
      if (column >= 64 && column < 128) inputs.v[i] = 0;
      if (column % 7 == 3) inputs.v[i] *= 1e-6F;
      if (column >= 192) inputs.v[i] *= 1e-38F;
    }
    OwnedState state(*device_, inputs.shape);
    inputs.Decode(*device_, state, c.tokens - 2);
    // In host memory, where a restored state is before it goes to its device.
    OwnedState exact(*reference_, inputs.shape), built(*reference_, inputs.shape);
    inputs.Append(*reference_, exact, 0, c.tokens);
    VqState view = exact.View();
    const VqState copy = built.View();
    view.mean = copy.mean;
    view.mean_scale = copy.mean_scale;
    view.recent = copy.recent;
    view.recent_scale = copy.recent_scale;
    BuildVqReadCopy(inputs.shape, view);
    EXPECT_TRUE(built.SameCopy(state));
  }
}

// Outputs of `inputs` where rows may be left out are near those of `whole`, of which none are.
void ExpectSkippingMoves(const VqInputs& inputs, float skip_mass, const std::vector<float>& whole,
                         const std::vector<float>& got, const std::vector<StepReads>& reads) {
  const int64_t keys = inputs.shape.codes + inputs.shape.window;
  const double largest = inputs.LargestValue(), rounding = 2 * inputs.DecodeBound();
  for (size_t t = 0; t < reads.size(); ++t) {
    for (size_t h = 0; h < static_cast<size_t>(inputs.heads); ++h) {
      const double mass = reads[t].skipped_mass[h];
      ASSERT_GE(mass, 0);
      ASSERT_LE(mass, skip_mass * (1 + Gamma(2 * keys)));
      // As bfloat16, a value is up to 2^-8 larger than it was.
      const double bound = 2 * mass * largest * (1 + 0x1p-8) + rounding;
      const size_t values = static_cast<size_t>(inputs.shape.value);
      const size_t first = (t * static_cast<size_t>(inputs.heads) + h) * values;
      for (size_t i = first; i < first + values; ++i) {
        ASSERT_NEAR(got[i], whole[i], bound) << "step " << t << " head " << h;
      }
    }
  }
}

TEST_P(VqAttentionTest, LeavingRowsOutMovesAnOutputByAtMostTwiceTheirMass) {
  for (const VqSizes& c : Cases()) {
    const VqInputs inputs(Shape(c), c.heads, c.tokens, 10);
    const int64_t first = c.tokens - (slow() ? 3 : 10);
    OwnedState exact(*device_, inputs.shape);
    const std::vector<float> whole = inputs.Decode(*device_, exact, first);
    for (const float skip_mass : {0.0F, 0.01F, 0.3F, 0.999999F}) {
      OwnedState state(*device_, inputs.shape), other(*reference_, inputs.shape);
      std::vector<StepReads> reads, reference_reads;
      const auto got = inputs.Decode(*device_, state, first, skip_mass, &reads);
      const auto want = inputs.Decode(*reference_, other, first, skip_mass, &reference_reads);
      ExpectSkippingMoves(inputs, skip_mass, whole, got, reads);
      if (skip_mass == 0) {
        EXPECT_EQ(got, whole);
      }
      EXPECT_TRUE(state == exact) << "states differ";
      int64_t rows = 0, rows_read = 0, otherwise = 0;
      for (size_t t = 0; t < reads.size(); ++t) {
        for (size_t g = 0; g < 2 * static_cast<size_t>(c.kv_heads); g += 2) {
          ASSERT_GE(reads[t].row_reads[g + 1], 1);
          ASSERT_EQ(reads[t].row_reads[g], reference_reads[t].row_reads[g]);
          rows += reads[t].row_reads[g];
          rows_read += reads[t].row_reads[g + 1];
        }
        // The choice hangs on roundings where a share lies at an edge, or a sum at the mass.
        if (reads[t].row_reads != reference_reads[t].row_reads) {
          ++otherwise;
          continue;
        }
        const auto width = static_cast<int64_t>(c.heads * c.value);
        const auto at = static_cast<int64_t>(t) * width;
        ExpectNear(std::vector(got.begin() + at, got.begin() + at + width),
                   std::vector(want.begin() + at, want.begin() + at + width),
                   2 * inputs.DecodeBound());
        ExpectNear(reads[t].skipped_mass, reference_reads[t].skipped_mass,
                   inputs.Bound() / inputs.LargestValue());
      }
      ASSERT_LE(rows_read, rows);
      // A share is rounded by some 2^-22 of it, an edge comes every 2^-3.5: of a step's hundreds of
      // rows one in thousands of steps lies that near. There are 10.
      EXPECT_LE(otherwise, 1);
      if (skip_mass == 0) {
        EXPECT_EQ(rows_read, rows);
      }
      if (skip_mass > 0.2 && c.codes > 1) {
        EXPECT_LT(rows_read, rows);
      }
    }
  }
}

// Scores far apart: the maximum has to cover codes and recent positions together, and only codes
// that occurred.
TEST_P(VqAttentionTest, LargeScoresDoNotOverflow) {
  const VqSizes c{1, 1, 8, 4, 16, 40};
  VqInputs inputs(Shape(c), c.heads, c.tokens, 7);
  for (float& score : inputs.code_scores) score *= 200;
  for (float& score : inputs.position_scores) score *= 200;
  for (int32_t& code : inputs.codes) code %= 4;  // 4 to 7 never occur, whatever they score
  OwnedState state(*device_, inputs.shape);
  const auto want = inputs.Quadratic();
  const auto first = FirstDecoded(c);
  ExpectNear(inputs.Decode(*device_, state, first), inputs.Quadratic(first),
             inputs.DecodeBound() + inputs.CopyBound());
  for (const DType factors : kFactors) {
    OwnedState other(*device_, inputs.shape);
    std::vector<float> out(static_cast<size_t>(inputs.OutSize()));
    inputs.Prefill(*device_, other, 0, c.tokens, out, factors);
    ExpectNear(out, want, inputs.PrefillBound(factors));
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, VqAttentionTest, ::testing::ValuesIn(VqCases()), kCaseName);

}  // namespace
}  // namespace tvq
