// A model whose layers are of several kinds: quantized keys, every key in pages, sums of features.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "tests/models/runtime/stack/mixed_model.h"
#include "tests/models/runtime/stack/state_content.h"
#include "tests/models/runtime/stack/wrapped_layer.h"

namespace tvq {
namespace {

std::shared_ptr<Device> Cpu() { return MakeDevice("cpu", 2).value(); }

// A layer that cannot take back what it was fed keeps all from it.
TEST(MixedLayersTest, TakesNoDrafts) { EXPECT_EQ(DraftRows(MixedModel(Cpu()).model()), 0); }

// A standard block rounds at four products.
TEST(MixedLayersTest, CountsWhatItsLayersRound) {
  MixedModel mixed(Cpu());
  const ModelInfo& info = mixed.model().info();
  EXPECT_EQ(info.products, 6 * 4);
  EXPECT_EQ(info.kept, 2 * 1 + 2 * 2);
  EXPECT_EQ(info.factors, 2 * 2);
}

// Layers that read all there is say nothing, wherever they lie, and large batches leave nothing
// that a small one would count.
TEST(MixedLayersReadsTest, AreCountedOfTheLayersThatReport) {
  MixedModel together(Cpu(), {.reads = {.skip_mass = 0.2F}}),
      alone(Cpu(), {.reads = {.skip_mass = 0.2F}});
  std::vector<std::unique_ptr<State>> states, twins;
  std::vector<State*> rows;
  for (const int64_t position : {40, 90, 120, 200, 250}) {
    together.PrefillTo(*states.emplace_back(together.NewState()), position);
    alone.PrefillTo(*twins.emplace_back(alone.NewState()), position);
    rows.push_back(states.back().get());
  }
  EXPECT_EQ(ReadTotals(together.model()).queries, 0);
  together.Step(rows);
  together.Step({rows[0]});
  for (const auto& twin : twins) alone.Step({twin.get()});
  alone.Step({twins[0].get()});
  const StateReadTotals got = ReadTotals(together.model()), want = ReadTotals(alone.model());
  EXPECT_EQ(got.queries, 6 * MixedModel::kVqBlocks * MixedModel::kHeads);
  EXPECT_EQ(want.queries, got.queries);
  EXPECT_GT(got.rows_read, 0);
  EXPECT_LT(got.rows_read, got.rows);
  EXPECT_EQ(want.rows, got.rows);
  EXPECT_EQ(want.rows_read, got.rows_read);
  EXPECT_NEAR(want.skipped_mass, got.skipped_mass, 1e-6);
}

// Fills the memory that it shares with the other layers with NaN ahead of each call.
class PoisonedLayer : public WrappedLayer {
 public:
  using WrappedLayer::WrappedLayer;

  void Reserve(int64_t rows, WorkingMemory& memory) override {
    memory.Share(&first_, 0);
    WrappedLayer::Reserve(rows, memory);
    memory.Share(&last_, 0);
  }
  absl::Status Prefill(const LayerState& state, const LayerRows& rows) override {
    Poison();
    return WrappedLayer::Prefill(state, rows);
  }
  absl::Status Decode(const RowStates& states, const LayerRows& rows) override {
    Poison();
    return WrappedLayer::Decode(states, rows);
  }

 private:
  void Poison() const {
    ASSERT_LT(first_, last_);
    std::fill(first_, last_, std::numeric_limits<float>::quiet_NaN());
  }

  float *first_ = nullptr, *last_ = nullptr;
};

TEST(MixedLayersMemoryTest, NoLayerReadsWhatAnotherLeft) {
  for (const auto& [block, bias] : {std::pair("standard", "relative"), {"gated", "toeplitz"}}) {
    MixedOptions options{.block = block, .position_bias = bias};
    MixedModel clean(Cpu(), options);
    options.wrap = [](std::unique_ptr<Layer> layer) {
      return std::make_unique<PoisonedLayer>(std::move(layer));
    };
    MixedModel poisoned(Cpu(), options);
    const auto a = clean.NewState(), b = poisoned.NewState();
    EXPECT_EQ(poisoned.PrefillTo(*b, 250), clean.PrefillTo(*a, 250)) << block;
    EXPECT_EQ(poisoned.StepTo(*b, 260), clean.StepTo(*a, 260)) << block;
    const auto c = clean.NewState(), d = poisoned.NewState();
    EXPECT_EQ(poisoned.Step({d.get(), b.get()}), clean.Step({c.get(), a.get()})) << block;
    EXPECT_EQ(ContentOf(*b), ContentOf(*a)) << block;
  }
}

// Both ends, and the two layers of each standard block.
TEST(MixedLayersLoadTest, ShowsItsProgress) {
  int64_t last = 0;
  const MixedModel model(Cpu(), {.progress = [&](int64_t done, int64_t total) {
                           EXPECT_EQ(done, last + 1);
                           EXPECT_EQ(total, 2 * MixedModel::kBlocks + 2);
                           last = done;
                         }});
  EXPECT_EQ(last, 2 * MixedModel::kBlocks + 2);
}

}  // namespace
}  // namespace tvq
