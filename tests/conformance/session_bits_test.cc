// What a session's bits and bytes rest on, for every kind of model: batched = alone, any number of
// threads, any schedule of chunks, forks, states that were saved and loaded.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tests/conformance/model_cases.h"
#include "tests/models/synthetic_state.h"

namespace tvq::conformance {
namespace {

TEST_P(ModelTest, BatchGivesEachRowTheBitsItHasAlone) {
  std::vector<std::pair<DType, StateReads>> cases{
      {DType::kFloat32, {}}, {DType::kBFloat16, Reads().back()}, {DType::kInt8, {}}};
  if (HasInt4()) cases.emplace_back(DType::kInt4, StateReads());
  if (Reads().size() > 1) cases.emplace_back(DType::kBFloat16, StateReads());
  for (const auto& [dtype, reads] : cases) {
    Fixture f = Make(dtype, 2, reads);
    // One row more than full tiles: of 6 (products) and, where that is not slow, of 16 (scores).
    const size_t sessions = slow() ? 5 : naive() ? 7 : 19;
    // Few, too, where tiles of 16 rows are computed in software: a tile is full or not at any step.
    const size_t steps = slow() || naive() ? 3 : amx_stand_in() ? 2 : 5;
    // Where a state grows, rows come to their second page each in another step; where there are few
    // steps, one of them in their midst. What nobody fed is as good a beginning, and at once there.
    // Rings come round in the batch, too.
    const int64_t turned = shape().converted() ? 40 : 0;
    const int64_t base = !shape().grows() ? turned : slow() ? 248 : naive() ? 235 : 215;
    std::vector<std::unique_ptr<State>> alone, batched;
    std::vector<std::vector<int32_t>> tokens;
    std::vector<State*> states;
    for (size_t i = 0; i < sessions; ++i) {
      tokens.push_back(RandomTokens(20 + 3 * i, shape().vocab, 100 + i));
      alone.push_back(f.NewState());
      batched.push_back(f.NewState());
      states.push_back(batched.back().get());
      if (base > 0) {
        ASSERT_TRUE(Synthesize(f.model(), *alone.back(), base, 100 + i).ok());
      }
      // Different positions in one batch.
      f.Prefill(*alone.back(), std::span(tokens[i]).first(3 * i + 1));
      ASSERT_TRUE(batched.back()->CopyFrom(*alone.back()).ok());
    }
    for (size_t step = 0; step < steps; ++step) {
      std::vector<int32_t> next;
      next.reserve(sessions);
      for (size_t i = 0; i < sessions; ++i) next.push_back(tokens[i][3 * i + 1 + step]);
      const std::vector<std::vector<float>> rows = f.Batch(states, next);
      for (size_t i = 0; i < sessions; ++i) {
        ASSERT_EQ(rows[i], f.Step(*alone[i], next[i])) << "row " << i << " step " << step;
      }
    }
    for (size_t i = 0; i < sessions; ++i) ASSERT_EQ(Bytes(*alone[i]), Bytes(*batched[i]));
  }
}

TEST_P(ModelTest, ThreadsDoNotChangeBits) {
  if (GetParam().backend.name == "cuda_stand_in") GTEST_SKIP() << "its kernels run on one thread";
  for (const StateReads& reads : Reads()) {
    Fixture one = Make(DType::kBFloat16, 1, reads), three = Make(DType::kBFloat16, 3, reads);
    const size_t prefilled = slow() ? 30 : 77;
    const std::vector<int32_t> tokens = RandomTokens(prefilled + 13, shape().vocab, 8);
    const std::unique_ptr<State> a = one.NewState(), b = three.NewState();
    EXPECT_EQ(one.Prefill(*a, std::span(tokens).first(prefilled)),
              three.Prefill(*b, std::span(tokens).first(prefilled)));
    for (size_t i = prefilled; i < tokens.size(); ++i) {
      EXPECT_EQ(one.Step(*a, tokens[i]), three.Step(*b, tokens[i]));
    }
    EXPECT_EQ(Bytes(*a), Bytes(*b));
  }
}

// Whole chunks end at absolute multiples of prefill_chunk, so stopping between chunks changes
// nothing, nor what a step reads of the state behind them.
TEST_P(ModelTest, PausingBetweenChunksDoesNotChangeBits) {
  for (const StateReads& reads : FewReads()) {
    Fixture f = Make(DType::kFloat32, 2, reads);
    const std::vector<int32_t> tokens = RandomTokens(slow() ? 130 : 300, shape().vocab, 9);
    const std::unique_ptr<State> at_once = f.NewState(), paused = f.NewState(),
                                 other = f.NewState();
    const std::vector<float> expected = f.Prefill(*at_once, tokens);
    std::vector<float> last;
    for (size_t at = 0; at < tokens.size();) {
      const auto n = static_cast<size_t>(NextChunk(static_cast<int64_t>(at),
                                                   static_cast<int64_t>(tokens.size() - at),
                                                   shape().prefill_chunk));
      last = f.Prefill(*paused, std::span(tokens).subspan(at, n));
      f.Step(*other, 1);  // someone else computes in between
      at += n;
    }
    EXPECT_EQ(expected, last);
    EXPECT_EQ(Bytes(*at_once), Bytes(*paused));
    EXPECT_EQ(f.Step(*at_once, 2), f.Step(*paused, 2));
  }
}

TEST_P(ModelTest, ForkContinuesLikeTheOriginal) {
  for (const StateReads& reads : FewReads()) {
    Fixture f = Make(DType::kBFloat16, 2, reads);
    // The first page is full soon, a ring has come round.
    const size_t fed = shape().grows() ? 250 : shape().converted() ? 100 : 60;
    const std::vector<int32_t> tokens = RandomTokens(fed + 20, shape().vocab, 10);
    const std::unique_ptr<State> original = f.NewState(), fork = f.NewState();
    f.Prefill(*original, std::span(tokens).first(fed));
    f.Prefill(*fork, std::span(tokens).first(33));  // something to overwrite
    ASSERT_TRUE(fork->CopyFrom(*original).ok());
    for (size_t i = fed; i < fed + 10; ++i) {
      ASSERT_EQ(f.Step(*original, tokens[i]), f.Step(*fork, tokens[i]));
    }
    // The fork shares nothing writable: neither what a snapshot holds nor what a step reads.
    const std::unique_ptr<State> kept = f.NewState();
    original->Seal([](int64_t) { return std::make_shared<const int>(0); });
    EXPECT_EQ(original->sealed_bytes() > 0, shape().grows());
    ASSERT_TRUE(kept->CopyFrom(*original).ok());
    ASSERT_TRUE(fork->CopyFrom(*original).ok());
    for (size_t i = fed + 10; i < fed + 20; ++i) f.Step(*fork, tokens[i]);
    EXPECT_EQ(Bytes(*kept), Bytes(*original));
    EXPECT_EQ(f.Step(*kept, tokens[fed + 10]), f.Step(*original, tokens[fed + 10]));
  }
}

// Load of what VisitSections gave, then prefill and decode mixed, for rings that have not filled,
// are just full, and have turned, pages that are about to be full and are, and where an old state
// is overwritten.
TEST_P(ModelTest, LoadedStateContinuesLikeTheOriginal) {
  std::vector<std::pair<DType, StateReads>> cases{{DType::kBFloat16, {}}};
  for (const StateReads& reads : FewReads()) cases.emplace_back(DType::kFloat32, reads);
  for (const auto& [state_dtype, reads] : cases) {
    Fixture f(shape(), GetParam().backend, DType::kFloat32, 2, state_dtype, reads);
    std::vector<size_t> saves{0, 1, window() - 1, window(), window() + 1, 60};
    if (shape().grows()) saves.insert(saves.end(), {225, 256, 270});
    if (shape().converted()) saves.insert(saves.end(), {127, 128, 150});
    constexpr size_t kMore = 50;  // goes on for so long: any window turns twice
    const std::vector<int32_t> tokens =
        RandomTokens(std::ranges::max(saves) + kMore, shape().vocab, 13);
    const std::unique_ptr<State> loaded = f.NewState();
    for (const size_t saved : saves) {
      if (slow() && saved != window()) continue;
      const std::unique_ptr<State> original = f.NewState();
      const size_t prefilled = std::max(saved / 2, saved - std::min<size_t>(saved, 30));
      f.Prefill(*original, std::span(tokens).first(prefilled));
      for (size_t i = prefilled; i < saved; ++i) f.Step(*original, tokens[i]);

      const std::vector<std::byte> bytes = Bytes(*original);
      const absl::Status status = LoadBytes(*loaded, original->position(), bytes);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(loaded->position(), original->position());
      ASSERT_EQ(Bytes(*loaded), bytes);

      const std::span<const int32_t> rest = std::span(tokens).subspan(saved, kMore);
      ASSERT_EQ(f.Prefill(*loaded, rest.first(25)), f.Prefill(*original, rest.first(25)));
      for (int32_t token : rest.subspan(25, 10)) {
        ASSERT_EQ(f.Step(*loaded, token), f.Step(*original, token)) << "saved at " << saved;
      }
      ASSERT_EQ(f.Prefill(*loaded, rest.subspan(35)), f.Prefill(*original, rest.subspan(35)));
      ASSERT_EQ(Bytes(*loaded), Bytes(*original));
    }
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

// docs/state.md: the same for ever, and where keys are kept a page of keys and values of all layers
// for every 256 positions, with room for the addresses of 128 pages; longer lists take whole pages.
TEST_P(ModelTest, StateHasTheSizeThatWasQuoted) {
  Fixture f = Make();
  const Shape& s = shape();
  // A head that keeps all keys beside others keeps them in both forms.
  const int64_t numbers = s.growing ? 2 * s.d_k + s.d_v : s.n_layer * s.n_kv_head * (s.d_k + s.d_v);
  const int64_t page = 256 * numbers * 4 + 8 * 128;
  const int64_t constant = s.grows() && !s.growing ? 0 : f.model().StateBytes(0);
  const auto quoted = [&](int64_t tokens) {
    if (!s.grows()) return constant;
    const int64_t pages = (tokens + 255) / 256;
    const auto list = static_cast<uint64_t>((8 * pages + page - 1) / page);
    return constant +
           (pages + (pages > 128 ? static_cast<int64_t>(std::bit_ceil(list)) : 0)) * page;
  };
  EXPECT_EQ(f.model().StateBytes(10'000'000), quoted(10'000'000));
  const std::unique_ptr<State> state = f.NewState();
  for (const size_t tokens : {0, 1, s.grows() ? 255 : 40, 1, 1, 40}) {
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

// Rows with a weight of a key/value head whose positions so far had these codes: a row for every
// code of a position beyond the window, and one for each position within.
int64_t RowsOf(const std::vector<int32_t>& codes, size_t window) {
  const size_t recent = std::min(codes.size(), window);
  const std::set<int32_t> retired(codes.begin(), codes.end() - static_cast<std::ptrdiff_t>(recent));
  return std::ssize(retired) + static_cast<int64_t>(recent);
}

// What decode leaves out is counted; where it leaves nothing out, nothing is.
TEST_P(ModelTest, CountsWhatDecodeReads) {
  for (const StateReads& reads : Reads()) {
    Fixture f = Make(DType::kFloat32, 2, reads);
    EXPECT_EQ(f.model().info().reads.int8, reads.int8);
    EXPECT_EQ(f.model().info().reads.skip_mass, reads.skip_mass);
    const std::unique_ptr<State> state = f.NewState();
    // codes of each position, by layer and key/value head
    std::map<std::pair<int64_t, int64_t>, std::vector<int32_t>> codes;
    if (shape().has_codes()) {
      f.model().quantized_keys()->SetTap([&](int64_t layer, Matrix<int32_t> found) {
        for (int64_t i = 0; i < found.size(); ++i) {
          codes[{layer, i % found.dim(1)}].push_back(found.data[i]);
        }
      });
    }
    const std::vector<int32_t> tokens = RandomTokens(40, shape().vocab, 15);
    f.Prefill(*state, std::span(tokens).first(30));
    EXPECT_EQ(ReadTotals(f.model()).queries, 0);
    const bool counted = reads.skip_mass > 0;
    int64_t rows = 0;
    for (size_t i = 30; i < tokens.size(); ++i) {
      f.Step(*state, tokens[i]);
      for (const auto& [head, known] : codes) rows += counted ? RowsOf(known, window()) : 0;
    }
    const StateReadTotals totals = ReadTotals(f.model());
    const int64_t steps = counted ? 10 : 0;
    const int64_t shared = shape().n_head / shape().n_kv_head;
    EXPECT_EQ(totals.queries, steps * shape().coded_heads() * shared);
    EXPECT_EQ(totals.rows, rows);
    EXPECT_LE(totals.rows_read, totals.rows);
    EXPECT_GE(totals.rows_read, steps * shape().coded_heads());
    EXPECT_EQ(totals.skipped_mass > 0, totals.rows_read < totals.rows);
    // The bound of each query, and float32's rounding of the sums that are held against it.
    EXPECT_LE(totals.skipped_mass,
              static_cast<double>(totals.queries) * reads.skip_mass * (1 + 1e-5));
  }
}

TEST_P(ModelTest, SynthesizedStateDecodesFiniteInALongContext) {
  for (const StateReads& reads : Reads()) {
    Fixture f = Make(DType::kFloat32, 2, reads);
    const int64_t position = shape().grows() ? 10'000 : 10'000'000;
    const std::unique_ptr<State> state = f.NewState();
    ASSERT_TRUE(Synthesize(f.model(), *state, position, 1).ok());
    EXPECT_EQ(state->position(), position);
    for (float l : f.Step(*state, 2)) EXPECT_TRUE(std::isfinite(l));
    EXPECT_EQ(state->position(), position + 1);
  }
}

}  // namespace
}  // namespace tvq::conformance
