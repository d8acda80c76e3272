// What holds for each op of a recurrent layer on every device.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "tests/kernels/ops/recurrent/layers.h"

namespace tvq {
namespace {

class RecurrentOpsTest : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam());
    device_ = MakeTestDevice(GetParam());
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeTestDevice("reference");
};

// A step from a state that the device has itself reached, so that the errors of earlier steps do
// not count. The bound is that of the formula's roundings in float32 (bounded.h). The reference
// rounds once, to float32; what float64 loses before is 2^-29 of the bound, here and there.
void ExpectNear(const std::vector<float>& got, const std::vector<float>& reference,
                const std::vector<Bounded>& want) {
  ASSERT_EQ(got.size(), want.size());
  ASSERT_EQ(reference.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = want[i].error, rounding = kRounding * want[i].Largest();
    ASSERT_TRUE(std::isfinite(error)) << "element " << i;
    ASSERT_NEAR(reference[i], want[i].value, rounding + error * 0x1p-28) << "element " << i;
    ASSERT_NEAR(got[i], want[i].value, error) << "element " << i;
  }
}

void ExpectSteps(Device& device, Device& reference, const Layer& layer, const StateValues& start) {
  const OwnedState state(device, start);
  for (int64_t n = 0; n < layer.tokens; ++n) {
    SCOPED_TRACE(absl::StrCat(layer.name, ", position ", n));
    const StateValues before = state.Read();
    const Layer::Step want = layer.Expect(n, before);
    const OwnedState other(reference, before);
    const std::vector<float> out = Decode(device, layer, {state.View()}, {n});
    const std::vector<float> reference_out = Decode(reference, layer, {other.View()}, {n});
    ExpectNear(out, reference_out, want.out);
    const StateValues after = state.Read(), reference_after = other.Read();
    ExpectNear(after.matrix, reference_after.matrix, want.matrix);
    EXPECT_EQ(Bits(after.inputs), Bits(want.inputs));
    EXPECT_EQ(Bits(reference_after.inputs), Bits(want.inputs));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST_P(RecurrentOpsTest, AStepIsTheFormula) {
  for (const auto& layer : Layers(4)) {
    ExpectSteps(*device_, *reference_, *layer, layer->NewState());
    ExpectSteps(*device_, *reference_, *layer, layer->RandomState(50));
  }
}

// Steps, decays and gates as far out as they come, keys and values of zero.
TEST_P(RecurrentOpsTest, AStepIsTheFormulaOfExtremeInputs) {
  const auto spread = [](RowValues& rows, int64_t first, int64_t count, std::vector<float> values) {
    for (size_t i = 0; i < rows.all.size(); ++i) {
      const int64_t column = static_cast<int64_t>(i) % rows.width - first;
      if (column >= 0 && column < count) rows.all[i] = values[i * 7 / 3 % values.size()];
    }
  };
  constexpr int64_t kPositions = 6;
  TimeMixLayer mix(2, 24, true, kPositions);
  spread(mix.decay, 0, 48, {0, 1, 0.5F});
  spread(mix.rate, 0, 48, {1, 0, 1e-30F});
  spread(mix.v_mix, 0, 48, {0, 1, 1});
  std::fill_n(mix.k.row(1), 48, 0.0F);
  std::fill_n(mix.k.row(2), 48, 1e-20F);
  std::fill_n(mix.r.row(3), 48, 0.0F);
  spread(mix.gate, 0, 48, {1e4F, -1e4F, 0});
  ExpectSteps(*device_, *reference_, mix, mix.RandomState(51));

  // Values that differ little from their mean: it must go before squares are added.
  TimeMixLayer far(2, 24, false, kPositions);
  for (float& v : far.v.all) v += 1000;
  ExpectSteps(*device_, *reference_, far, far.NewState());

  const GatedDeltaShape shape{1, 3, 16, 24};
  DeltaLayer delta(shape, kPositions);
  spread(delta.projected, shape.convolved(), 72, {1e4F, -1e4F, 0, 100, -100, 1});
  spread(delta.projected, shape.convolved() + 72, 6, {1e4F, -1e4F, 100, -100, -20});
  std::fill_n(delta.convolved.row(1), 32, 0.0F);
  std::fill_n(delta.convolved.row(2), 16, 1e-20F);
  std::fill_n(delta.convolved.row(3), shape.convolved(), 1e4F);
  ExpectSteps(*device_, *reference_, delta, delta.RandomState(52));

  for (const float most : {0.1F, std::numeric_limits<float>::infinity()}) {
    const MambaShape scanned{1, 2, 16, 24};
    ScanLayer scan(scanned, 0, most, kPositions);
    spread(scan.projected, 0, 48, {1e4F, -1e4F, 0, 100, -100, 1});
    spread(scan.projected, scanned.inner() + scanned.convolved(), 2, {1e4F, -1e4F, 20, -100});
    std::fill_n(scan.convolved.row(1), scanned.convolved(), 0.0F);
    ExpectSteps(*device_, *reference_, scan, scan.RandomState(53));
  }

  ConvolutionLayer convolution(4, 37, 5, 50, true, kPositions);
  spread(convolution.x, 0, 50, {1e4F, -1e4F, 0, 100, -100, 1});
  ExpectSteps(*device_, *reference_, convolution, convolution.RandomState(54));
}

struct Outcome {
  std::vector<uint32_t> out;
  StateValues state;
  bool operator==(const Outcome&) const = default;
};

Outcome PrefillInChunks(Device& device, const Layer& layer, int64_t chunk) {
  const OwnedState state(device, layer.RandomState(60));
  std::vector<float> out;
  for (int64_t first = 0; first < layer.tokens; first += chunk) {
    const Rows rows = Consecutive(first, std::min(chunk, layer.tokens - first));
    const std::vector<float> part = Prefill(device, layer, state, rows);
    out.insert(out.end(), part.begin(), part.end());
  }
  return {Bits(out), state.Read()};
}

TEST_P(RecurrentOpsTest, APromptHasTheBitsOfDecodeInWhateverChunks) {
  const std::unique_ptr<Device> one_thread = MakeTestDevice(GetParam(), 1);
  const int64_t positions = InPlainOrder(GetParam()) ? 9 : 65;
  for (const auto& layer : Layers(positions)) {
    SCOPED_TRACE(layer->name);
    const OwnedState state(*device_, layer->RandomState(60));
    std::vector<float> out;
    for (int64_t n = 0; n < layer->tokens; ++n) {
      const std::vector<float> row = Decode(*device_, *layer, {state.View()}, {n});
      out.insert(out.end(), row.begin(), row.end());
    }
    const Outcome decoded{Bits(out), state.Read()};
    EXPECT_TRUE(PrefillInChunks(*device_, *layer, positions) == decoded);
    EXPECT_TRUE(PrefillInChunks(*device_, *layer, 7) == decoded);
    EXPECT_TRUE(PrefillInChunks(*device_, *layer, 1) == decoded);
    EXPECT_TRUE(PrefillInChunks(*one_thread, *layer, positions - 1) == decoded);
  }
}

TEST_P(RecurrentOpsTest, ASessionHasTheSameBitsInAnyBatch) {
  const std::unique_ptr<Device> one_thread = MakeTestDevice(GetParam(), 1);
  constexpr int64_t kSessions = 5, kNone = 2;
  for (const auto& layer : Layers(kSessions)) {
    SCOPED_TRACE(layer->name);
    std::vector<OwnedState> states;
    std::vector<RecurrentState> views;
    std::vector<float> alone;
    std::vector<StateValues> after;
    for (int64_t n = 0; n < kSessions; ++n) {
      const StateValues start = layer->RandomState(70 + 2 * static_cast<uint32_t>(n));
      states.emplace_back(*device_, start);
      // A row of no session fills up the batch.
      views.push_back(n == kNone ? RecurrentState() : states.back().View());
      const OwnedState own(*one_thread, start);
      std::vector<float> out(static_cast<size_t>(layer->out));
      if (n != kNone) out = Decode(*one_thread, *layer, {own.View()}, {n});
      alone.insert(alone.end(), out.begin(), out.end());
      after.push_back(own.Read());
    }
    const Rows rows = Consecutive(0, kSessions);
    EXPECT_EQ(Bits(Decode(*device_, *layer, views, rows)), Bits(alone));
    for (size_t n = 0; n < states.size(); ++n) EXPECT_TRUE(states[n].Read() == after[n]) << n;
  }
}

// A step is taken back by what it kept: the state is then what it was, whatever came after.
TEST_P(RecurrentOpsTest, SeveralRowsOfASessionAreOneAfterTheOtherAndCanBeTakenBack) {
  if (!device_->host_memory()) GTEST_SKIP() << "for devices that compute in host memory";
  constexpr int64_t kRows = 3, kSessions = 2;
  for (const auto& layer : Layers(kRows * kSessions)) {
    SCOPED_TRACE(layer->name);
    std::vector<OwnedState> kept;
    std::vector<RecurrentState> views;
    std::vector<StateValues> before;  // each row
    std::vector<float> alone;
    std::vector<OwnedState> states;
    for (uint32_t s = 0; s < kSessions; ++s) {
      const StateValues start = layer->RandomState(80 + 2 * s);
      const OwnedState own(*device_, start);
      states.emplace_back(*device_, start);
      for (int64_t i = 0; i < kRows; ++i) {
        before.push_back(own.Read());
        kept.emplace_back(*device_, layer->NewState());
        views.push_back(states.back().Keeping(kept.back()));
        const std::vector<float> out = Decode(*device_, *layer, {own.View()}, {s * kRows + i});
        alone.insert(alone.end(), out.begin(), out.end());
      }
      before.push_back(own.Read());
    }
    const std::vector<float> out =
        Decode(*device_, *layer, views, Consecutive(0, kRows * kSessions));
    EXPECT_EQ(Bits(out), Bits(alone));
    for (size_t s = 0; s < kSessions; ++s) {
      const StateValues* const expected = before.data() + s * (kRows + 1);
      EXPECT_TRUE(states[s].Read() == expected[kRows]);
      for (size_t i = 0; i < kRows; ++i) {
        const StateValues copy = kept[s * kRows + i].Read();
        EXPECT_EQ(Bits(copy.matrix), Bits(expected[i].matrix)) << i;
        // Ops with a matrix leave the inputs alone.
        if (layer->matrix == 0) EXPECT_EQ(Bits(copy.inputs), Bits(expected[i].inputs)) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RecurrentOpsTest, ::testing::ValuesIn(AllDevices()), kCaseName);

}  // namespace
}  // namespace tvq
