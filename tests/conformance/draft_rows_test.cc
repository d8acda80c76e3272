// Drafts: several tokens of a session in one call of Decode, and taking back those that were wrong.

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "tests/conformance/model_cases.h"

namespace tvq::conformance {
namespace {

constexpr int64_t kDraftRows = 9;

// Sessions that are fed drafts, each with a twin that is fed what is kept of them, a token a call.
class Twins {
 public:
  Twins(Fixture& fixture, int64_t vocab, std::span<const size_t> positions)
      : f_(fixture), vocab_(vocab), fork_(fixture.NewState()) {
    for (const size_t position : positions) {
      drafted_.push_back(f_.NewState());
      plain_.push_back(f_.NewState());
      f_.Prefill(*plain_.back(), RandomTokens(position, vocab_, 30 + position));
      EXPECT_TRUE(drafted_.back()->CopyFrom(*plain_.back()).ok());
    }
  }

  // Rows of a session that follow one another in a call, of which the first `kept` stay.
  struct Run {
    size_t session, rows, kept;
  };

  // One call of Decode: every row has the bits of a call of its own, and what is left of every
  // session is what its twin has.
  void Step(const std::vector<Run>& runs) {
    std::vector<State*> states;
    std::vector<int32_t> tokens;
    for (const Run& run : runs) {
      states.insert(states.end(), run.rows, drafted_[run.session].get());
      for (size_t i = 0; i < run.rows; ++i) {
        tokens.push_back(static_cast<int32_t>(random_() % static_cast<uint64_t>(vocab_)));
      }
    }
    const std::vector<std::vector<float>> logits = f_.Batch(states, tokens);
    for (const Run& run : runs) {
      const int64_t end = plain_[run.session]->position() + static_cast<int64_t>(run.kept);
      const absl::Status status = f_.model().drafts()->Rewind(*drafted_[run.session], end);
      ASSERT_TRUE(status.ok()) << status;
    }
    size_t row = 0;
    for (const Run& run : runs) {
      State& plain = *plain_[run.session];
      ASSERT_TRUE(fork_->CopyFrom(plain).ok());
      for (size_t i = 0; i < run.rows; ++i, ++row) {
        ASSERT_EQ(logits[row], f_.Step(*fork_, tokens[row]))
            << "row " << i << " of " << run.rows << " at " << fork_->position();
        if (i < run.kept) f_.Step(plain, tokens[row]);
      }
      ASSERT_EQ(drafted_[run.session]->position(), plain.position());
      ASSERT_EQ(Bytes(*drafted_[run.session]), Bytes(plain))
          << run.kept << " of " << run.rows << " rows kept";
    }
  }

 private:
  Fixture& f_;
  const int64_t vocab_;
  std::mt19937_64 random_{31};
  std::vector<std::unique_ptr<State>> drafted_, plain_;
  std::unique_ptr<State> fork_;
};

// Families that can take back what they were fed, on devices that can.
bool TakesDrafts(const Case& on) {
  return (on.shape.has_codes() || on.shape.grows()) && !on.backend.name.starts_with("cuda");
}

std::vector<Case> DraftingCases() {
  std::vector<Case> cases = Cases();
  std::erase_if(cases, [](const Case& on) { return !TakesDrafts(on); });
  return cases;
}

class DraftsTest : public ModelTest {};

INSTANTIATE_TEST_SUITE_P(Devices, DraftsTest, testing::ValuesIn(DraftingCases()), CaseName);

Fixture MakeDrafting(const Case& on, DType dtype, const StateReads& reads = {}) {
  return Fixture(on.shape, on.backend, dtype, 2, {}, reads, kDraftRows);
}

TEST_P(ModelTest, SaysHowManyDraftsACallMayHold) {
  EXPECT_EQ(DraftRows(Make().model()), 0);
  EXPECT_EQ(DraftRows(MakeDrafting(GetParam(), DType::kFloat32).model()),
            TakesDrafts(GetParam()) ? kDraftRows : 0);
}

TEST_P(DraftsTest, HaveTheBitsOfStepsOfTheirOwnAndLeaveNoTraceWhenTakenBack) {
  const bool few = naive() || amx_stand_in();
  std::vector<std::pair<DType, StateReads>> cases{
      {DType::kFloat32, {}}, {DType::kBFloat16, {}}, {DType::kInt8, Reads().back()}};
  if (!few) {
    cases.emplace_back(DType::kBFloat16, StateReads{.int8 = true});
    cases.emplace_back(DType::kFloat32, StateReads{.skip_mass = 0.05F});
    cases.emplace_back(DType::kInt4, Reads().back());
  }
  // Rings that are empty, about to fill, and have turned.
  const size_t positions[] = {0, window() - 1, 3 * window() + 5};
  for (const auto& [dtype, reads] : cases) {
    Fixture f = MakeDrafting(GetParam(), dtype, reads);
    Twins twins(f, shape().vocab, positions);
    for (size_t turn = 0; turn < (few ? 2 : 4) && !HasFatalFailure(); ++turn) {
      // From all kept down to none but the first; other sessions before, between and behind.
      twins.Step({{0, 1 + turn % 4, 1}, {1, 4, 4 - turn % 4}, {2, 1, 1}});
      twins.Step({{2, 5, 1 + turn % 5}, {1, 1, 1}, {0, 6, 2 + turn % 5}});
      twins.Step({{0, 10, 10 - turn}});
    }
  }
}

// Rows of a call are computed 64 at a time, or a chunk, where that is more.
TEST_P(DraftsTest, MayCrossAStepsTile) {
  if (naive()) GTEST_SKIP() << "takes long";
  Fixture f = MakeDrafting(GetParam(), DType::kFloat32);
  std::vector<size_t> positions(65, 1);
  positions[62] = 2 * window();
  Twins twins(f, shape().vocab, positions);
  for (const size_t kept : {5, 2, 1, 3}) {
    std::vector<Twins::Run> runs;
    runs.reserve(positions.size());
    for (size_t i = 0; i < positions.size(); ++i) runs.push_back({i, 1, 1});
    runs[62] = {62, 5, kept};
    twins.Step(runs);
  }
}

TEST_P(DraftsTest, TakesBackNothingElse) {
  Fixture f = MakeDrafting(GetParam(), DType::kFloat32);
  const std::unique_ptr<State> state = f.NewState(), other = f.NewState();
  Logits logits = f.model().NewLogits(kDraftRows + 2).value();
  const std::vector<DecodeRow> too_many(kDraftRows + 2, {state.get(), 1, 0});
  EXPECT_EQ(f.model().Decode(too_many, &logits).message(),
            "10 rows follow another of the same state, must be at most 9");
  EXPECT_EQ(state->position(), 0);
  const DecodeRow apart[] = {{state.get(), 1, 0}, {other.get(), 1, 1}, {state.get(), 2, 2}};
  EXPECT_EQ(f.model().Decode(apart, &logits).message(),
            "a state has rows that are apart, must have them next to one another");
  EXPECT_EQ(state->position(), 0);
  EXPECT_EQ(other->position(), 0);

  f.Batch({state.get(), state.get(), state.get(), other.get()}, {1, 2, 3, 4});
  // Nor the first row, nor forwards, nor what another state was fed.
  for (const int64_t position : {0, -1, 4}) {
    EXPECT_EQ(f.model().drafts()->Rewind(*state, position).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(f.model().drafts()->Rewind(*other, 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(f.model().drafts()->Rewind(*state, 3).ok());
  EXPECT_TRUE(f.model().drafts()->Rewind(*state, 2).ok());
  EXPECT_TRUE(f.model().drafts()->Rewind(*state, 1).ok());
  EXPECT_TRUE(f.model().drafts()->Rewind(*other, 1).ok());
  f.Batch({state.get(), state.get()}, {1, 2});
  f.Step(*other, 5);
  EXPECT_EQ(f.model().drafts()->Rewind(*state, 2).message(),
            "the state is at position 3 and cannot go back to 2, must be behind the first row that "
            "was fed to it last");

  // A prefill, of whichever state, lets go of what would be needed.
  f.Batch({state.get(), state.get()}, {1, 2});
  f.Prefill(*other, RandomTokens(1, shape().vocab, 32));
  EXPECT_TRUE(f.model().drafts()->Rewind(*state, 5).ok());
  EXPECT_EQ(f.model().drafts()->Rewind(*state, 4).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tvq::conformance
