// The model of mixed layers on what stands in for a GPU.

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/stand_in/make_device.h"
#include "tests/models/runtime/stack/mixed_model.h"
#include "tests/models/runtime/stack/state_content.h"
#include "tests/models/runtime/stack/wrapped_layer.h"

namespace tvq {
namespace {

constexpr int64_t kPrompt = 254;  // near the end of a page

std::shared_ptr<Device> Gpu() { return MakeCudaStandIn("forwards"); }

// Its steps are recorded, and a batch of three runs one of four.
TEST(MixedLayersGpuTest, PreparedItGivesTheSameBits) {
  MixedModel prepared(Gpu()), direct(Gpu());
  ASSERT_TRUE(prepared.model().Prepare({.decode_rows = 4}).ok());
  std::vector<std::unique_ptr<State>> states;
  std::vector<State*> a, b;
  for (const int64_t position : {int64_t{1}, int64_t{9}, kPrompt}) {
    a.push_back(states.emplace_back(prepared.NewState()).get());
    b.push_back(states.emplace_back(direct.NewState()).get());
    EXPECT_EQ(prepared.PrefillTo(*a.back(), position), direct.PrefillTo(*b.back(), position));
  }
  for (int step = 0; step < 3; ++step) EXPECT_EQ(prepared.Step(a), direct.Step(b)) << step;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(ContentOf(*a[i]), ContentOf(*b[i])) << i;
    EXPECT_EQ(a[i]->bytes(), prepared.model().StateBytes(a[i]->position())) << i;
  }
}

TEST(MixedLayersGpuTest, PreparedItAgreesWithTheCpu) {
  MixedModel gpu(Gpu()), cpu(MakeDevice("cpu", 2).value());
  ASSERT_TRUE(gpu.model().Prepare({.decode_rows = 1}).ok());
  const auto a = gpu.NewState(), b = cpu.NewState();
  const auto expect_near = [](const std::vector<float>& got, const std::vector<float>& want) {
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << i;
  };
  expect_near(gpu.PrefillTo(*a, kPrompt), cpu.PrefillTo(*b, kPrompt));
  expect_near(gpu.StepTo(*a, kPrompt + 5), cpu.StepTo(*b, kPrompt + 5));
}

// Notes how much memory is free when a layer, whose weights are loaded, asks for working memory.
class NotingLayer : public WrappedLayer {
 public:
  NotingLayer(std::unique_ptr<Layer> layer, const Device& device, int64_t& free)
      : WrappedLayer(std::move(layer)), device_(device), free_(free) {}

  void Reserve(int64_t rows, WorkingMemory& memory) override {
    free_ = *device_.FreeMemory();
    WrappedLayer::Reserve(rows, memory);
  }

 private:
  const Device& device_;
  int64_t& free_;
};

TEST(MixedLayersGpuTest, WorkingMemoryTakesWhatIsSaid) {
  const std::shared_ptr<Device> device = Gpu();
  int64_t before = 0;
  MixedModel mixed(device, {.wrap = [&](std::unique_ptr<Layer> layer) {
                     return std::make_unique<NotingLayer>(std::move(layer), *device, before);
                   }});
  const int64_t said = mixed.model().WorkspaceBytes(8);
  EXPECT_GT(said, 0);
  EXPECT_EQ(before - *device->FreeMemory(), said + MixedModel::kLogitsBytes);
}

}  // namespace
}  // namespace tvq
