// The whole network of every kind of attention in both blocks against the oracle, on every device
// and instruction set.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/verify/rounding.h"
#include "tests/conformance/model_cases.h"

namespace tvq::conformance {
namespace {

std::vector<double> LogSoftmax(const std::vector<float>& logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (float l : logits) total += std::exp(l - top);
  std::vector<double> result;
  result.reserve(logits.size());
  for (float l : logits) result.push_back(l - top - std::log(total));
  return result;
}

// The oracle's run of these tokens, which is the same for all devices and so computed once. The
// weights are those of every fixture of the shape.
const OracleRun& RunOfOracle(const Shape& shape, WeightSource& weights, DType dtype,
                             const std::vector<int32_t>& tokens) {
  static std::map<std::tuple<std::string, DType, std::vector<int32_t>>, OracleRun> runs;
  const auto [run, added] = runs.try_emplace({shape.name, dtype, tokens});
  if (added) run->second = Oracle(shape, weights, dtype).Run(tokens);
  return run->second;
}

double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// The bound of the golden data (1e-4) is for trained models; here too a sum of at most a few
// hundred float32 products of size 1 stays below it by an order of magnitude.
constexpr double kFloat32Bound = 1e-4;

TEST_P(ModelTest, StepsGiveTheOraclesProbabilities) {
  Fixture f = Make();
  const std::vector<int32_t> tokens = RandomTokens(length(), shape().vocab, 3);
  const OracleRun& oracle = RunOfOracle(shape(), f.weights(), DType::kFloat32, tokens);
  const std::unique_ptr<State> state = f.NewState();
  f.Force(oracle, *state);
  for (size_t i = 0; i < tokens.size(); ++i) {
    // A cache's first page fills alike from token to token.
    if (shape().grows() && i == 60) {
      f.Prefill(*state, std::span(tokens).subspan(60, 180));
      i = 240;
    }
    const std::vector<double> row = LogSoftmax(f.Step(*state, tokens[i]));
    ASSERT_LT(LargestDifference(row, oracle.logprobs[i]), kFloat32Bound) << "position " << i;
  }
}

TEST_P(ModelTest, PrefillGivesTheOraclesProbabilities) {
  Fixture f = Make();
  const std::vector<int32_t> tokens = RandomTokens(length(), shape().vocab, 4);
  const OracleRun& oracle = RunOfOracle(shape(), f.weights(), DType::kFloat32, tokens);
  std::mt19937 random(5);
  const std::unique_ptr<State> state = f.NewState();
  f.Force(oracle, *state);
  for (size_t at = 0; at < tokens.size();) {
    const size_t n = std::min<size_t>(1 + random() % 40, tokens.size() - at);
    const std::vector<double> row = LogSoftmax(f.Prefill(*state, std::span(tokens).subspan(at, n)));
    at += n;
    ASSERT_LT(LargestDifference(row, oracle.logprobs[at - 1]), kFloat32Bound) << "position " << at;
  }
}

// A code may differ from the oracle's only where the distances nearly tie: float32 keys and scores
// of norm about K^(1/4) err by less than 1e-5 in squared distance.
TEST_P(ModelTest, AssignsTheNearestCode) {
  Fixture f = Make();
  ASSERT_EQ(f.model().quantized_keys() != nullptr, shape().has_codes());
  if (!shape().has_codes()) return;
  const std::vector<int32_t> tokens = RandomTokens(slow() ? 50 : 120, shape().vocab, 6);
  const OracleRun& oracle = RunOfOracle(shape(), f.weights(), DType::kFloat32, tokens);
  const std::unique_ptr<State> state = f.NewState();
  int64_t assigned = 0;
  f.model().quantized_keys()->SetTap([&](int64_t layer, Matrix<int32_t> codes) {
    for (int64_t h = 0; h < codes.dim(1); ++h) {
      const auto at = static_cast<size_t>(state->position() * codes.dim(1) + h);
      const auto code = static_cast<size_t>(codes.data[h]);
      EXPECT_LT(oracle.excess[static_cast<size_t>(layer)][at][code], 1e-5);
      codes.data[h] = oracle.codes[static_cast<size_t>(layer)][at];
      ++assigned;
    }
  });
  for (int32_t token : tokens) f.Step(*state, token);
  EXPECT_EQ(assigned, std::ssize(tokens) * shape().coded_heads());
}

// Rounded weights and activations, codes forced; the oracle has the same weights.
void StaysWithinRounding(const Case& c, size_t steps, DType dtype) {
  Fixture f(c.shape, c.backend, dtype, 2, DType::kFloat32);
  const size_t prefilled = 40;
  const std::vector<int32_t> tokens = RandomTokens(prefilled + steps, c.shape.vocab, 7);
  const OracleRun& oracle = RunOfOracle(c.shape, f.weights(), dtype, tokens);
  const std::unique_ptr<State> state = f.NewState();
  f.Force(oracle, *state);
  double squares = 0, spread = 0;
  const auto compare = [&](const std::vector<float>& logits, size_t position) {
    const std::vector<double> row = LogSoftmax(logits);
    const std::vector<double>& expected = oracle.logprobs[position];
    const double mean = std::accumulate(expected.begin(), expected.end(), 0.0) /
                        static_cast<double>(expected.size());
    for (size_t j = 0; j < row.size(); ++j) {
      squares += (row[j] - expected[j]) * (row[j] - expected[j]);
      spread += (expected[j] - mean) * (expected[j] - mean);
    }
  };
  compare(f.Prefill(*state, std::span(tokens).first(prefilled)), prefilled - 1);
  for (size_t i = prefilled; i < tokens.size(); ++i) compare(f.Step(*state, tokens[i]), i);
  const double bound = verify::RoundingBound(f.model().info(), verify::Weights::kSame);
  EXPECT_LT(std::sqrt(squares), bound * std::sqrt(spread)) << Name(dtype);
  // Rounding must be there at all: a model that ignored its dtype would agree to 1e-6. (Nothing is
  // rounded by the reference where weights are integers.)
  if (c.shape.n_code > 1 && (c.backend.name != "reference" || dtype == DType::kBFloat16)) {
    EXPECT_GT(std::sqrt(squares), 1e-5 * std::sqrt(spread));
  }
}

TEST_P(ModelTest, RoundedWeightsStayWithinRounding) {
  for (const DType dtype : {DType::kBFloat16, DType::kInt8}) {
    StaysWithinRounding(GetParam(), slow() ? 20 : 60, dtype);
  }
  if (HasInt4()) StaysWithinRounding(GetParam(), 60, DType::kInt4);
}

// A state from the reference device continues on this one within the bound of one device alone.
TEST_P(ModelTest, ContinuesAStateOfAnotherDevice) {
  Fixture from(shape(), {"reference", ""}, DType::kFloat32), to = Make();
  const std::vector<int32_t> tokens = RandomTokens(90, shape().vocab, 14);
  const OracleRun& oracle = RunOfOracle(shape(), from.weights(), DType::kFloat32, tokens);
  const std::unique_ptr<State> original = from.NewState(), loaded = to.NewState();
  from.Force(oracle, *original);
  for (size_t i = 0; i < 60; ++i) from.Step(*original, tokens[i]);
  ASSERT_TRUE(LoadBytes(*loaded, original->position(), Bytes(*original)).ok());
  to.Force(oracle, *loaded);
  for (size_t i = 60; i < tokens.size(); ++i) {
    const std::vector<double> row = LogSoftmax(to.Step(*loaded, tokens[i]));
    ASSERT_LT(LargestDifference(row, oracle.logprobs[i]), kFloat32Bound) << "position " << i;
  }
}

TEST(ModelErrors, NameReadsThatAreNotPossible) {
  TestWeights weights(1, true);
  LoadOptions options;
  options.device = MakeTestDevice("cpu");
  options.reads.skip_mass = 1;
  const Config config = Config::Parse(Shapes()[0].Json(), "test").value();
  EXPECT_EQ(BuildModel(config, weights, nullptr, options).status().message(),
            "skip_mass is 1, must be 0 to less than 1");
}

// At the start, not at the first request.
TEST(ModelErrors, NameWhatAGpuTakesInPlaceOfOtherFeatures) {
  const auto build = [](const char* kind) {
    const Shape shape{.kind = kind};
    TestWeights weights(1);
    LoadOptions options;
    options.device = MakeTestDevice("cuda_stand_in", "forwards");
    const Config config = Config::Parse(shape.Json(), "test").value();
    return BuildModel(config, weights, nullptr, options).status().ToString();
  };
  EXPECT_EQ(build("linear_transformer"), "OK");
  constexpr const char* kTaken =
      " runs on the device 'cpu' alone; of products of features this device takes those of a "
      "linear_transformer (Features: the backend 'cuda' computes elu + 1, not ";
  EXPECT_EQ(build("soft_codebook"),
            absl::StrCat("UNIMPLEMENTED: a soft_codebook", kTaken, "soft assignment)"));
  EXPECT_EQ(build("performer"),
            absl::StrCat("UNIMPLEMENTED: a performer", kTaken, "positive random features)"));
}

TEST(ModelErrors, NameTheTokenAndTheChunk) {
  Fixture f(Shapes()[4], {"cpu", ""}, DType::kFloat32);
  const std::unique_ptr<State> state = f.NewState();
  Logits logits = f.model().NewLogits(1).value();
  const std::vector<int32_t> bad{1, 29};
  PrefillChunk chunk;
  chunk.state = state.get();
  chunk.tokens = bad;
  absl::Status s = f.model().Prefill(chunk, &logits);
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(s.message().find("token 1 is id 29"), absl::string_view::npos) << s;
  EXPECT_EQ(state->position(), 0);

  const std::vector<int32_t> long_chunk(8, 1);  // prefill_chunk is 7
  chunk.tokens = long_chunk;
  s = f.model().Prefill(chunk, &logits);
  EXPECT_NE(s.message().find("crosses a multiple of prefill_chunk 7"), absl::string_view::npos)
      << s;
}

}  // namespace
}  // namespace tvq::conformance
