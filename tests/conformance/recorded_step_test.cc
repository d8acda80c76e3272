// A decode step that was recorded gives the bits of one that was not, whether a batch fills the
// recording or not.

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/conformance/fixture.h"
#include "tests/kernels/cuda/stand_in/overlap.h"
#include "tests/kernels/cuda/stand_in/runtime.h"
#include "tests/models/synthetic_state.h"

namespace tvq::conformance {
namespace {

// Three heads that share one state, an absolute position, a window that wraps while the test runs.
Shape SmallShape() {
  return {.name = "small",
          .d_model = 10,
          .d_k = 4,
          .d_v = 6,
          .n_code = 5,
          .n_layer = 2,
          .n_head = 3,
          .n_kv_head = 1,
          .block_len = 4,
          .mem_len = 3,
          .pe_abs = true};
}

// Sums of products of features, or pages of keys and values: no codes.
Shape SmallShapeOf(const char* kind) {
  Shape shape = SmallShape();
  shape.kind = kind;
  return shape;
}

// Converted: a layer that keeps all keys beside one that keeps a ring of them.
Shape SmallConverted() {
  Shape shape = SmallShapeOf("llama");
  shape.d_v = shape.d_k;
  shape.ring = 64;
  shape.wide = shape.trained = 128;
  shape.growing = true;
  return shape;
}

// The models hold the same weights; the states of both are fed the same.
struct Twins {
  Twins(const Shape& shape, const DeviceCase& device, DType dtype, const StateReads& reads = {})
      : recorded(shape, device, dtype, 2, {}, reads), direct(shape, device, dtype, 2, {}, reads) {}

  Fixture recorded, direct;
};

// As wide as it takes for several of a GPU's blocks to share an output of every projection.
Shape WideShape() {
  return {.name = "wide",
          .d_model = 1024,
          .d_k = 4,
          .d_v = 1024,
          .n_code = 5,
          .n_layer = 1,
          .block_len = 4,
          .mem_len = 3};
}

// Of so many features that several blocks share the columns of a linear Transformer's state.
Shape ManyFeatures() {
  return {.name = "many_features",
          .kind = "linear_transformer",
          .d_k = 70,
          .d_v = 132,
          .n_layer = 1,
          .n_head = 2,
          .n_kv_head = 1};
}

class RecordedStepTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override { TVQ_SKIP_WITHOUT_DEVICE(GetParam()); }
};

// A step's tile has 64 rows, so 65 take two: a full one and one of the smallest recordings.
constexpr int64_t kMost = 65;

// Those that fill recordings up to the one of 16, and those with one row more, and with `large` up
// to beyond the largest.
std::vector<size_t> BatchSizes(bool large) {
  std::vector<size_t> sizes{1, 2, 3, 4, 5, 8, 9, 16, 17};
  if (large) sizes.insert(sizes.end(), {65, 33, 64});
  sizes.push_back(2);
  return sizes;
}

TEST_P(RecordedStepTest, HasTheBitsOfADirectStepWhetherItFillsTheRecordingOrNot) {
  // The CUDA kernels on the CPU take milliseconds a row: not everything in every order of threads.
  const bool all = !InPlainOrder(GetParam());
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt8}) {
    if (dtype != DType::kFloat32 && !all) continue;
    Twins twins(SmallShape(), GetParam(), dtype);
    ASSERT_TRUE(twins.recorded.model().Prepare({.decode_rows = kMost}).ok());
    std::vector<std::unique_ptr<State>> recorded, direct;
    for (int64_t i = 0; i < kMost; ++i) {
      recorded.push_back(twins.recorded.NewState());
      direct.push_back(twins.direct.NewState());
    }
    const std::vector<int32_t> tokens = RandomTokens(kMost * 2, 29, 1);
    // The sessions come to differ in position, for the batch grows and shrinks.
    for (const size_t rows : BatchSizes(all && dtype == DType::kFloat32)) {
      std::vector<State*> of_recorded, of_direct;
      for (size_t i = 0; i < rows; ++i) {
        of_recorded.push_back(recorded[kMost - 1 - i].get());
        of_direct.push_back(direct[kMost - 1 - i].get());
      }
      const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(rows % 7);
      const std::vector<int32_t> next(first, first + static_cast<std::ptrdiff_t>(rows));
      ASSERT_TRUE(twins.recorded.Batch(of_recorded, next) == twins.direct.Batch(of_direct, next))
          << rows << " rows";
    }
    for (size_t i = 0; i < recorded.size(); ++i) {
      ASSERT_EQ(Bytes(*recorded[i]), Bytes(*direct[i])) << "state " << i;
    }
  }
}

// The blocks' tickets are at zero again behind every recording.
TEST_P(RecordedStepTest, HasTheBitsOfADirectStepWhereBlocksShareAnOutput) {
  const std::pair<Shape, DType> cases[] = {{WideShape(), DType::kBFloat16},
                                           {WideShape(), DType::kInt8},
                                           {ManyFeatures(), DType::kFloat32}};
  for (const auto& [shape, dtype] : cases) {
    Twins twins(shape, GetParam(), dtype);
    ASSERT_TRUE(twins.recorded.model().Prepare({.decode_rows = 2}).ok());
    std::vector<std::unique_ptr<State>> states;
    const auto two = [&](Fixture& fixture) {
      State* const first = states.emplace_back(fixture.NewState()).get();
      return std::vector<State*>{first, states.emplace_back(fixture.NewState()).get()};
    };
    const std::vector<State*> recorded = two(twins.recorded), direct = two(twins.direct);
    for (const int32_t token : {1, 2}) {
      ASSERT_EQ(twins.recorded.Batch(recorded, {token, 7}), twins.direct.Batch(direct, {token, 7}));
    }
    ASSERT_EQ(twins.recorded.Step(*recorded[0], 3), twins.direct.Step(*direct[0], 3));
    for (size_t i = 0; i < 2; ++i) ASSERT_EQ(Bytes(*recorded[i]), Bytes(*direct[i]));
  }
}

// What a session's rows are decides inside of the recording which of them are read.
TEST_P(RecordedStepTest, HasTheBitsOfADirectStepThatLeavesRowsOut) {
  for (const StateReads& reads : {StateReads{.int8 = true}, StateReads{.skip_mass = 0.2F},
                                  StateReads{.int8 = true, .skip_mass = 0.2F}}) {
    Twins twins(SmallShape(), GetParam(), DType::kFloat32, reads);
    ASSERT_TRUE(twins.recorded.model().Prepare({.decode_rows = 4}).ok());
    std::vector<std::unique_ptr<State>> recorded, direct;
    for (int i = 0; i < 4; ++i) {
      recorded.push_back(twins.recorded.NewState());
      direct.push_back(twins.direct.NewState());
    }
    const std::vector<int32_t> tokens = RandomTokens(32, 29, 3);
    size_t next = 0;
    for (const size_t rows : {4, 3, 1, 4, 3, 2, 4, 3, 3, 4}) {
      std::vector<State*> of_recorded, of_direct;
      for (size_t i = 0; i < rows; ++i) {
        of_recorded.push_back(recorded[i].get());
        of_direct.push_back(direct[i].get());
      }
      const std::vector<int32_t> fed(
          tokens.begin() + static_cast<std::ptrdiff_t>(next % 28),
          tokens.begin() + static_cast<std::ptrdiff_t>(next % 28 + rows));
      next += rows;
      ASSERT_TRUE(twins.recorded.Batch(of_recorded, fed) == twins.direct.Batch(of_direct, fed));
    }
    for (size_t i = 0; i < 4; ++i) ASSERT_EQ(Bytes(*recorded[i]), Bytes(*direct[i]));
    const StateReadTotals got = ReadTotals(twins.recorded.model());
    const StateReadTotals want = ReadTotals(twins.direct.model());
    EXPECT_EQ(got.rows, want.rows);
    EXPECT_EQ(got.rows_read, want.rows_read);
    EXPECT_EQ(got.queries, want.queries);
    EXPECT_EQ(got.skipped_mass, want.skipped_mass);
    EXPECT_EQ(got.rows_read < got.rows, reads.skip_mass > 0);
  }
}

// Rows of nobody have no state to add to. Of pages, those of some sessions come to be two while the
// recording stays, and the rows of nobody change how many blocks share a session.
TEST_P(RecordedStepTest, HasTheBitsOfADirectStepOfOtherKinds) {
  for (const Shape& shape : {SmallShapeOf("linear_transformer"),
                             SmallShapeOf("softmax_transformer"), SmallConverted()}) {
    Twins twins(shape, GetParam(), DType::kFloat32);
    ASSERT_TRUE(twins.recorded.model().Prepare({.decode_rows = 4}).ok());
    std::vector<std::unique_ptr<State>> recorded, direct;
    for (const int64_t position : {254, 130, 0, 255}) {
      for (auto& [fixture, states] :
           {std::pair(&twins.recorded, &recorded), std::pair(&twins.direct, &direct)}) {
        states->push_back(fixture->NewState());
        ASSERT_TRUE(Synthesize(fixture->model(), *states->back(), position, states->size()).ok());
      }
    }
    const std::vector<int32_t> tokens{3, 7, 11, 28};
    for (const size_t rows : {4, 3, 1, 4, 2}) {
      std::vector<State*> of_recorded, of_direct;
      for (size_t i = 0; i < rows; ++i) {
        of_recorded.push_back(recorded[i].get());
        of_direct.push_back(direct[i].get());
      }
      const std::vector<int32_t> fed(tokens.begin(), tokens.begin() + static_cast<int64_t>(rows));
      ASSERT_TRUE(twins.recorded.Batch(of_recorded, fed) == twins.direct.Batch(of_direct, fed))
          << shape.kind << ", " << rows << " rows";
    }
    for (size_t i = 0; i < 4; ++i) ASSERT_EQ(Bytes(*recorded[i]), Bytes(*direct[i])) << shape.kind;
  }
}

// What lies between steps may let the memory of intermediates grow: recordings have theirs still.
TEST_P(RecordedStepTest, OutlivesWhatOtherCallsNeed) {
  Twins twins(SmallShape(), GetParam(), DType::kFloat32);
  ASSERT_TRUE(twins.recorded.model().Prepare({.decode_rows = 2}).ok());
  const std::unique_ptr<State> recorded = twins.recorded.NewState();
  const std::unique_ptr<State> direct = twins.direct.NewState();
  const std::vector<int32_t> prompt = RandomTokens(60, 29, 2);
  EXPECT_EQ(twins.recorded.Step(*recorded, 5), twins.direct.Step(*direct, 5));
  EXPECT_EQ(twins.recorded.Prefill(*recorded, prompt), twins.direct.Prefill(*direct, prompt));
  EXPECT_EQ(twins.recorded.Step(*recorded, 7), twins.direct.Step(*direct, 7));
  EXPECT_EQ(Bytes(*recorded), Bytes(*direct));
}

std::vector<DeviceCase> Devices() {
  std::vector<DeviceCase> devices = AllDevices();
  std::erase_if(devices, [](const DeviceCase& device) { return device.name == "cpu"; });
  return devices;
}

INSTANTIATE_TEST_SUITE_P(Devices, RecordedStepTest, testing::ValuesIn(Devices()),
                         [](const auto& info) { return NameOf(info.param); });

// Kernels begin while the one before them ends: what each does ahead of its wait reads weights
// alone and writes nothing, in steps, recorded steps and prefill. It would read NaN otherwise.
TEST(OverlapTest, WhatComesAheadOfTheWaitChangesNothing) {
  const auto compare = [](const auto& run) {
    const auto expected = run();
    cuda_stand_in::SetOverlapCheck(true);
    const auto found = run();
    cuda_stand_in::SetOverlapCheck(false);
    EXPECT_EQ(found, expected);
  };
  const DeviceCase device{"cuda_stand_in", "shuffled"};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt8}) {
    compare([&] {
      Fixture f(SmallShape(), device, dtype);
      const auto one = f.NewState(), other = f.NewState();
      std::vector<std::vector<float>> logits{f.Prefill(*one, RandomTokens(5, 29, 1))};
      // Takes the longest by far.
      if (dtype == DType::kInt8) {
        EXPECT_TRUE(f.model().Prepare({.decode_rows = 2}).ok());
      }
      for (auto& row : f.Batch({one.get(), other.get()}, {4, 5})) logits.push_back(row);
      return logits;
    });
  }
  const StateReads part{.int8 = true, .skip_mass = 0.2F};
  for (const auto& [shape, reads] :
       {std::pair(SmallShape(), part), std::pair(SmallShapeOf("linear_transformer"), StateReads()),
        std::pair(SmallShapeOf("softmax_transformer"), StateReads())}) {
    compare([&] {
      Fixture f(shape, device, DType::kFloat32, 2, {}, reads);
      const auto one = f.NewState(), other = f.NewState();
      std::vector<std::vector<float>> logits{f.Prefill(*one, RandomTokens(5, 29, 1))};
      for (auto& row : f.Batch({one.get(), other.get()}, {4, 5})) logits.push_back(row);
      return logits;
    });
  }
  compare([&] {
    Fixture f(WideShape(), device, DType::kInt8);
    const auto state = f.NewState();
    return std::vector{f.Step(*state, 3), f.Step(*state, 4)};
  });
  // More rows than the kernels of projections prepare themselves.
  for (const DType dtype : {DType::kFloat32, DType::kInt8}) {
    compare([&] {
      Fixture f(SmallShape(), device, dtype);
      std::vector<std::unique_ptr<State>> states(17);
      std::vector<State*> batch;
      batch.reserve(states.size());
      for (auto& state : states) batch.push_back((state = f.NewState()).get());
      return f.Batch(batch, std::vector<int32_t>(states.size(), 4));
    });
  }
}

// A step of 4 sessions is one launch of a graph, and the logits behind it.
TEST(RecordedStepCount, AStepIsOneGraph) {
  Fixture f(SmallShape(), {"cuda_stand_in", "forwards"}, DType::kFloat32);
  std::vector<std::unique_ptr<State>> states;
  std::vector<State*> views;
  views.reserve(4);
  for (int i = 0; i < 4; ++i) views.push_back(states.emplace_back(f.NewState()).get());
  const auto step = [&] {
    const cuda_stand_in::RuntimeCounts before = cuda_stand_in::CountsOfRuntime();
    f.Batch(views, {1, 2, 3, 4});
    const cuda_stand_in::RuntimeCounts after = cuda_stand_in::CountsOfRuntime();
    return std::pair(after.graphs - before.graphs, after.launches - before.launches);
  };
  const auto [no_graphs, all_launches] = step();
  ASSERT_TRUE(f.model().Prepare({.decode_rows = 4}).ok());
  const auto [graphs, launches] = step();
  EXPECT_EQ(no_graphs, 0);
  EXPECT_EQ(graphs, 1);
  EXPECT_LT(launches, 5);
  // Projection, scores, attention and output of a layer take a launch each, or more.
  EXPECT_GE(all_launches, 4 * SmallShape().n_layer);
}

}  // namespace
}  // namespace tvq::conformance
