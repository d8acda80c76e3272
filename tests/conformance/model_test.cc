// The whole network of every kind of attention in both blocks against the oracle, on every device
// and instruction set, and the bit-equality contract of a session: batched = alone, any schedule of
// chunks, forks, threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "models/verify/rounding.h"
#include "tests/conformance/fixture.h"
#include "tests/conformance/oracle.h"
#include "tests/kernels/test_devices.h"

namespace tvq::conformance {
namespace {

// Every backend this machine can run. The CUDA kernels on the CPU are slow: one order of threads.
std::vector<DeviceCase> Backends() {
  std::vector<DeviceCase> found{{"reference", ""}, {"cuda_host", "shuffled"}, {"cuda", ""}};
  for (const std::string& isa : AvailableIsas()) found.push_back({"cpu", isa});
  return found;
}

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes(6);
  shapes[0].name = "single_head";
  shapes[1] = {.name = "three_heads_long_reach",
               .d_model = 18,
               .d_k = 6,
               .d_v = 10,
               .n_head = 3,
               .n_kv_head = 3,
               .block_len = 8,
               .mem_len = 21,
               .output_norm = true,
               .logit_scale = 0.7,
               .pe_lam = 5000};
  shapes[2] = {.name = "tied_absolute_short_reach",
               .d_model = 20,
               .block_len = 16,
               .mem_len = 5,
               .pe_abs = true,
               .tied = true,
               .output_norm = true,
               .logit_scale = 0.3};
  shapes[3] = {.name = "multi_query", .d_v = 7, .n_head = 4, .n_kv_head = 1, .mem_len = 9};
  shapes[4] = {.name = "grouped_small_chunk", .n_head = 4, .n_kv_head = 2, .prefill_chunk = 7};
  shapes[5] = {.name = "one_code_no_reach", .n_code = 1, .mem_len = 0};
  shapes.push_back({.name = "standard_multi_query",
                    .block = "standard",
                    .n_head = 4,
                    .n_kv_head = 1,
                    .pe_abs = true,
                    .output_norm = true});
  for (const auto& [form, kind] :
       {std::pair("toeplitz", "transformer_vq"), std::pair("rerope", "transformer_vq"),
        std::pair("toeplitz", "softmax_transformer")}) {
    const std::string prefix = std::string(form) + (kind[0] == 't' ? "_" : "_softmax_");
    shapes.push_back({.name = prefix + "gated_grouped_small_chunk",
                      .kind = kind,
                      .position_bias = form,
                      .n_head = 4,
                      .n_kv_head = 2,
                      .mem_len = 21,
                      .prefill_chunk = 7,
                      .pe_lam = 500});
    shapes.push_back({.name = prefix + "standard_multi_query_no_reach",
                      .kind = kind,
                      .block = "standard",
                      .position_bias = form,
                      .d_k = 6,
                      .n_head = 4,
                      .n_kv_head = 1,
                      .mem_len = 0});
  }
  for (const auto& [kind, prefix] :
       {std::pair("linear_transformer", "linear_"), std::pair("softmax_transformer", "softmax_"),
        std::pair("soft_codebook", "soft_"), std::pair("performer", "performer_")}) {
    for (Shape shape : {Shape{.name = "gated"},
                        Shape{.name = "gated_grouped_small_chunk",
                              .d_k = 7,
                              .n_head = 4,
                              .n_kv_head = 2,
                              .mem_len = 21,
                              .prefill_chunk = 7},
                        Shape{.name = "standard_three_heads",
                              .block = "standard",
                              .d_model = 18,
                              .d_k = 6,
                              .d_v = 10,
                              .n_head = 3,
                              .n_kv_head = 3,
                              .mem_len = 0,
                              .tied = true,
                              .output_norm = true,
                              .logit_scale = 0.7,
                              .d_ff = 37},
                        Shape{.name = "standard_multi_query",
                              .block = "standard",
                              .n_head = 4,
                              .n_kv_head = 1,
                              .pe_abs = true}}) {
      shape.kind = kind;
      shape.name = prefix + shape.name;
      shapes.push_back(std::move(shape));
    }
  }
  return shapes;
}

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

// Loads what Bytes gave.
absl::Status LoadBytes(State& state, int64_t position, const std::vector<std::byte>& bytes) {
  size_t at = 0;
  absl::Status status =
      state.Load(position, [&](const SectionInfo& section, std::span<std::byte> out) {
        EXPECT_EQ(static_cast<size_t>(section.bytes), out.size());
        std::copy_n(bytes.begin() + static_cast<int64_t>(at), out.size(), out.begin());
        at += out.size();
        return absl::OkStatus();
      });
  EXPECT_EQ(at, bytes.size());
  return status;
}

struct Case {
  Shape shape;
  DeviceCase backend;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const DeviceCase& backend : Backends()) {
    for (const Shape& shape : Shapes()) {
      // Slow: the odd sizes, an absolute position, shared heads.
      const bool kept = shape.name == "three_heads_long_reach" || shape.pe_abs ||
                        shape.name == "grouped_small_chunk" || shape.position_bias != "relative";
      const bool on_gpu = shape.vq() && !shape.standard();
      if (backend.name == "cuda_host" && !(kept && on_gpu)) continue;
      if (backend.name == "cuda" && !on_gpu) continue;
      cases.push_back({shape, backend});
    }
  }
  return cases;
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return NameOf(info.param.backend) + "_" + info.param.shape.name;
}

class ModelTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { TVQ_SKIP_WITHOUT_DEVICE(GetParam().backend); }
  const Shape& shape() const { return GetParam().shape; }
  // The CUDA kernels on the CPU take milliseconds a step.
  bool slow() const { return GetParam().backend.name == "cuda_host"; }
  Fixture Make(DType dtype = DType::kFloat32, int threads = 2, const StateReads& reads = {}) {
    return Fixture(shape(), GetParam().backend, dtype, threads, {}, reads);
  }
  // How decode may read states: exactly, and where there is a choice neither exactly nor whole.
  std::vector<StateReads> Reads() const {
    if (!shape().vq() || GetParam().backend.name.starts_with("cuda")) return {{}};
    return {{}, {.int8 = true, .skip_mass = 0.02F}};
  }
  // Enough for what changes with the position: a window that turns, a cache's second page.
  size_t length() const { return shape().grows() ? 270 : 150; }
  void StaysWithinRounding(DType dtype);
};

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
  ASSERT_EQ(f.model().quantized_keys() != nullptr, shape().vq());
  if (!shape().vq()) return;
  const std::vector<int32_t> tokens = RandomTokens(120, shape().vocab, 6);
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
  EXPECT_EQ(assigned, 120 * shape().n_layer * shape().n_kv_head);
}

// bfloat16 or int8 weights and rounded activations, codes forced; the oracle has the same weights.
TEST_P(ModelTest, RoundedWeightsStayWithinRounding) {
  for (const DType dtype : {DType::kBFloat16, DType::kInt8}) StaysWithinRounding(dtype);
}

void ModelTest::StaysWithinRounding(DType dtype) {
  Fixture f(shape(), GetParam().backend, dtype, 2, DType::kFloat32);
  const std::vector<int32_t> tokens = RandomTokens(100, shape().vocab, 7);
  const OracleRun& oracle = RunOfOracle(shape(), f.weights(), dtype, tokens);
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
  const size_t prefilled = 40;
  compare(f.Prefill(*state, std::span(tokens).first(prefilled)), prefilled - 1);
  for (size_t i = prefilled; i < tokens.size(); ++i) compare(f.Step(*state, tokens[i]), i);
  const double bound = verify::RoundingBound(f.model().info(), verify::Weights::kSame);
  EXPECT_LT(std::sqrt(squares), bound * std::sqrt(spread)) << Name(dtype);
  // Rounding must be there at all: a model that ignored its dtype would agree to 1e-6. (Nothing is
  // rounded by the reference where weights are int8.)
  if (shape().n_code > 1 && (GetParam().backend.name != "reference" || dtype != DType::kInt8)) {
    EXPECT_GT(std::sqrt(squares), 1e-5 * std::sqrt(spread));
  }
}

TEST_P(ModelTest, BatchGivesEachRowTheBitsItHasAlone) {
  std::vector<std::pair<DType, StateReads>> cases{
      {DType::kFloat32, {}}, {DType::kBFloat16, Reads().back()}, {DType::kInt8, {}}};
  if (Reads().size() > 1) cases.emplace_back(DType::kBFloat16, StateReads());
  for (const auto& [dtype, reads] : cases) {
    Fixture f = Make(dtype, 2, reads);
    const size_t sessions = slow() ? 5 : 32;
    const size_t steps = slow() ? 3 : 12;
    // Where a state grows, rows come to their second page each in another step.
    const size_t base = shape().grows() ? 200 : 0;
    std::vector<std::unique_ptr<State>> alone, batched;
    std::vector<std::vector<int32_t>> tokens;
    std::vector<State*> states;
    for (size_t i = 0; i < sessions; ++i) {
      tokens.push_back(RandomTokens(base + 20 + 3 * i, shape().vocab, 100 + i));
      alone.push_back(f.NewState());
      batched.push_back(f.NewState());
      states.push_back(batched.back().get());
      // Different positions in one batch.
      f.Prefill(*alone.back(), std::span(tokens[i]).first(base + 3 * i + 1));
      f.Prefill(*batched.back(), std::span(tokens[i]).first(base + 3 * i + 1));
    }
    for (size_t step = 0; step < steps; ++step) {
      std::vector<int32_t> next;
      next.reserve(sessions);
      for (size_t i = 0; i < sessions; ++i) next.push_back(tokens[i][base + 3 * i + 1 + step]);
      const std::vector<std::vector<float>> rows = f.Batch(states, next);
      for (size_t i = 0; i < sessions; ++i) {
        ASSERT_EQ(rows[i], f.Step(*alone[i], next[i])) << "row " << i << " step " << step;
      }
    }
    for (size_t i = 0; i < sessions; ++i) ASSERT_EQ(Bytes(*alone[i]), Bytes(*batched[i]));
  }
}

TEST_P(ModelTest, ThreadsDoNotChangeBits) {
  for (const StateReads& reads : Reads()) {
    Fixture one = Make(DType::kBFloat16, 1, reads), three = Make(DType::kBFloat16, 3, reads);
    const std::vector<int32_t> tokens = RandomTokens(90, shape().vocab, 8);
    const std::unique_ptr<State> a = one.NewState(), b = three.NewState();
    EXPECT_EQ(one.Prefill(*a, std::span(tokens).first(77)),
              three.Prefill(*b, std::span(tokens).first(77)));
    for (size_t i = 77; i < tokens.size(); ++i) {
      EXPECT_EQ(one.Step(*a, tokens[i]), three.Step(*b, tokens[i]));
    }
    EXPECT_EQ(Bytes(*a), Bytes(*b));
  }
}

// Whole chunks end at absolute multiples of prefill_chunk, so stopping between chunks changes
// nothing.
TEST_P(ModelTest, PausingBetweenChunksDoesNotChangeBits) {
  Fixture f = Make();
  const std::vector<int32_t> tokens = RandomTokens(300, shape().vocab, 9);
  const std::unique_ptr<State> at_once = f.NewState(), paused = f.NewState(), other = f.NewState();
  const std::vector<float> expected = f.Prefill(*at_once, tokens);
  std::vector<float> last;
  for (size_t at = 0; at < tokens.size();) {
    const auto n = static_cast<size_t>(NextChunk(
        static_cast<int64_t>(at), static_cast<int64_t>(tokens.size() - at), shape().prefill_chunk));
    last = f.Prefill(*paused, std::span(tokens).subspan(at, n));
    f.Step(*other, 1);  // someone else computes in between
    at += n;
  }
  EXPECT_EQ(expected, last);
  EXPECT_EQ(Bytes(*at_once), Bytes(*paused));
}

TEST_P(ModelTest, ForkContinuesLikeTheOriginal) {
  Fixture f = Make(DType::kBFloat16);
  const std::vector<int32_t> tokens = RandomTokens(80, shape().vocab, 10);
  const std::unique_ptr<State> original = f.NewState(), fork = f.NewState();
  f.Prefill(*original, std::span(tokens).first(60));
  f.Prefill(*fork, std::span(tokens).first(33));  // something to overwrite
  ASSERT_TRUE(fork->CopyFrom(*original).ok());
  for (size_t i = 60; i < 70; ++i)
    ASSERT_EQ(f.Step(*original, tokens[i]), f.Step(*fork, tokens[i]));
  // The fork shares nothing writable.
  const std::vector<std::byte> before = Bytes(*original);
  for (size_t i = 70; i < 80; ++i) f.Step(*fork, tokens[i]);
  EXPECT_EQ(before, Bytes(*original));
}

// Load of what VisitSections gave, then prefill and decode mixed, for rings that have not filled,
// are just full, and have turned, pages that are about to be full and are, and where an old state
// is overwritten.
TEST_P(ModelTest, LoadedStateContinuesLikeTheOriginal) {
  for (const auto& [state_dtype, reads] :
       {std::pair(DType::kFloat32, StateReads()), std::pair(DType::kBFloat16, StateReads()),
        std::pair(DType::kFloat32, Reads().back())}) {
    Fixture f(shape(), GetParam().backend, DType::kFloat32, 2, state_dtype, reads);
    const std::vector<int32_t> tokens =
        RandomTokens(shape().grows() ? 310 : 120, shape().vocab, 13);
    const auto window = static_cast<size_t>(shape().mem_len) + 1;
    std::vector<size_t> saves{0, 1, window - 1, window, window + 1, 60};
    if (shape().grows()) saves.insert(saves.end(), {225, 256, 270});
    const std::unique_ptr<State> loaded = f.NewState();
    for (const size_t saved : saves) {
      if (slow() && saved != window) continue;
      const std::unique_ptr<State> original = f.NewState();
      f.Prefill(*original, std::span(tokens).first(saved / 2));
      for (size_t i = saved / 2; i < saved; ++i) f.Step(*original, tokens[i]);

      const std::vector<std::byte> bytes = Bytes(*original);
      const absl::Status status = LoadBytes(*loaded, original->position(), bytes);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(loaded->position(), original->position());
      ASSERT_EQ(Bytes(*loaded), bytes);

      const std::span<const int32_t> rest = std::span(tokens).subspan(saved);
      ASSERT_EQ(f.Prefill(*loaded, rest.first(25)), f.Prefill(*original, rest.first(25)));
      for (int32_t token : rest.subspan(25, 10)) {
        ASSERT_EQ(f.Step(*loaded, token), f.Step(*original, token)) << "saved at " << saved;
      }
      ASSERT_EQ(f.Prefill(*loaded, rest.subspan(35)), f.Prefill(*original, rest.subspan(35)));
      ASSERT_EQ(Bytes(*loaded), Bytes(*original));
    }
  }
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

TEST_P(ModelTest, LogitsGoToTheHostAndBack) {
  Fixture f = Make();
  const std::unique_ptr<State> state = f.NewState();
  const std::vector<float> expected = f.Step(*state, 3);
  Logits logits = f.model().NewLogits(2).value();
  ASSERT_TRUE(f.model().WriteLogits(expected, &logits, 1).ok());
  std::vector<float> row(expected.size());
  ASSERT_TRUE(f.model().ReadLogits(logits, 1, row).ok());
  EXPECT_EQ(row, expected);
  ASSERT_TRUE(f.model().ReadLogits(logits, 0, row).ok());
  EXPECT_EQ(row, std::vector<float>(row.size()));
  EXPECT_FALSE(f.model().ReadLogits(logits, 2, row).ok());
  EXPECT_FALSE(f.model().ReadLogits(logits, -1, row).ok());
  row.pop_back();
  EXPECT_FALSE(f.model().ReadLogits(logits, 0, row).ok());
  EXPECT_FALSE(f.model().WriteLogits(row, &logits, 0).ok());
}

// docs/state.md: the same for ever, or a page of keys and values of all layers for every 256
// positions.
TEST_P(ModelTest, StateHasTheSizeThatWasQuoted) {
  Fixture f = Make();
  const Shape& s = shape();
  const int64_t page = 256 * s.n_layer * s.n_kv_head * (s.d_k + s.d_v) * 4;
  const auto quoted = [&](int64_t tokens) {
    return s.grows() ? (tokens + 255) / 256 * page : f.model().StateBytes(0);
  };
  EXPECT_EQ(f.model().StateBytes(10'000'000), quoted(10'000'000));
  const std::unique_ptr<State> state = f.NewState();
  for (const size_t tokens : {0, 1, 255, 1, 1, 40}) {
    f.Prefill(*state, RandomTokens(tokens, s.vocab, 11));
    EXPECT_EQ(state->bytes(), quoted(state->position())) << state->position();
    EXPECT_EQ(state->bytes(), f.model().StateBytes(state->position()));
  }
  ASSERT_TRUE(state->Reset().ok());
  EXPECT_EQ(state->position(), 0);
  EXPECT_EQ(state->bytes(), quoted(0));
  // Nothing of the past is left: as a new state.
  const std::vector<int32_t> tokens = RandomTokens(30, shape().vocab, 12);
  const std::unique_ptr<State> fresh = f.NewState();
  EXPECT_EQ(f.Prefill(*state, tokens), f.Prefill(*fresh, tokens));
}

// What decode leaves out is counted; where it leaves nothing out, nothing is.
TEST_P(ModelTest, CountsWhatDecodeReads) {
  for (const StateReads& reads : Reads()) {
    Fixture f = Make(DType::kFloat32, 2, reads);
    EXPECT_EQ(f.model().info().reads.int8, reads.int8);
    EXPECT_EQ(f.model().info().reads.skip_mass, reads.skip_mass);
    const std::unique_ptr<State> state = f.NewState();
    const std::vector<int32_t> tokens = RandomTokens(40, shape().vocab, 15);
    f.Prefill(*state, std::span(tokens).first(30));
    EXPECT_EQ(f.model().state_reads().queries, 0);
    for (size_t i = 30; i < tokens.size(); ++i) f.Step(*state, tokens[i]);
    const StateReadTotals totals = f.model().state_reads();
    const int64_t steps = reads.skip_mass > 0 ? 10 : 0;
    EXPECT_EQ(totals.queries, steps * shape().n_layer * shape().n_head);
    EXPECT_LE(totals.rows_read, totals.rows);
    EXPECT_LE(totals.rows,
              steps * shape().n_layer * shape().n_kv_head * (shape().n_code + shape().mem_len + 1));
    EXPECT_GE(totals.rows_read, steps * shape().n_layer * shape().n_kv_head);
    // The bound of each query, and float32's rounding of the sums that are held against it.
    EXPECT_LE(totals.skipped_mass,
              static_cast<double>(totals.queries) * reads.skip_mass * (1 + 1e-5));
  }
}

TEST_P(ModelTest, SynthesizedStateDecodesFiniteInALongContext) {
  Fixture f = Make();
  const int64_t position = shape().grows() ? 10'000 : 10'000'000;
  const std::unique_ptr<State> state = f.NewState();
  ASSERT_TRUE(state->Synthesize(position, 1).ok());
  EXPECT_EQ(state->position(), position);
  for (float l : f.Step(*state, 2)) EXPECT_TRUE(std::isfinite(l));
  EXPECT_EQ(state->position(), position + 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, ModelTest, testing::ValuesIn(Cases()), CaseName);

TEST(ModelErrors, NameReadsThatAreNotPossible) {
  const Shape shape = Shapes()[0];
  TestWeights weights(1, true);
  const auto load = [&](const DeviceCase& device, const StateReads& reads) {
    LoadOptions options;
    options.device = MakeTestDevice(device);
    options.reads = reads;
    const Config config = Config::Parse(shape.Json(), "test").value();
    return BuildModel(config, weights, nullptr, options).status();
  };
  EXPECT_EQ(load({"cpu", ""}, {.skip_mass = 1}).message(),
            "skip_mass is 1, must be 0 to less than 1");
  for (const StateReads& reads : {StateReads{.int8 = true}, StateReads{.skip_mass = 0.1F}}) {
    const absl::Status s = load({"cuda_host", "forwards"}, reads);
    EXPECT_EQ(s.code(), absl::StatusCode::kUnimplemented) << s;
  }
}

TEST(ModelErrors, NameTheTokenAndTheChunk) {
  Fixture f(Shapes()[4], {"cpu", ""}, DType::kFloat32);
  const std::unique_ptr<State> state = f.NewState();
  Logits logits = f.model().NewLogits(1).value();
  const std::vector<int32_t> bad{1, 29};
  PrefillChunk chunk;
  chunk.state = state.get();
  chunk.tokens = bad;
  absl::Status s = f.model().Prefill({&chunk, 1}, &logits);
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(s.message().find("token 1 is id 29"), absl::string_view::npos) << s;
  EXPECT_EQ(state->position(), 0);

  const std::vector<int32_t> long_chunk(8, 1);  // prefill_chunk is 7
  chunk.tokens = long_chunk;
  s = f.model().Prefill({&chunk, 1}, &logits);
  EXPECT_NE(s.message().find("crosses a multiple of prefill_chunk 7"), absl::string_view::npos)
      << s;
}

}  // namespace
}  // namespace tvq::conformance
