// Steps whose kernels overlap give the bits of steps whose kernels run one by one.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/conformance/fixture.h"

namespace tvq::conformance {
namespace {

// What reads too early shows only where kernels last and come close behind each other: on a GPU, in
// steps that nothing interrupts. Only kernels of a GPU do overlap: those on the CPU take turns in
// another order instead.
struct OverlapCase {
  DeviceCase overlapped, serial;
  Shape shape;
  size_t steps;
  std::vector<size_t> batches;
};

std::string NameOf(const OverlapCase& c) {
  return NameOf(c.overlapped) + (c.shape.has_codes() ? "" : "_" + c.shape.kind);
}
void PrintTo(const OverlapCase& c, std::ostream* out) { *out << NameOf(c); }

// As wide as a layer of a real model; the window wraps, so that positions retire.
OverlapCase OnGpu() {
  return {.overlapped = {"cuda", ""},
          .serial = {"cuda", "serial"},
          .shape = {.name = "layers of a real model",
                    .vocab = 256,
                    .d_model = 768,
                    .d_k = 128,
                    .d_v = 1536,
                    .n_code = 512,
                    .n_layer = 4,
                    .block_len = 64,
                    .mem_len = 64},
          .steps = 200,
          .batches = {1, 8, 32}};
}

OverlapCase OnCpu() {
  return {.overlapped = {"cuda_stand_in", "shuffled"},
          .serial = {"cuda_stand_in", "forwards"},
          .shape = {.name = "small", .n_layer = 1, .block_len = 2, .mem_len = 2},
          .steps = 4,
          .batches = {1, 3}};
}

OverlapCase Of(const char* kind, OverlapCase c) {
  c.shape.kind = kind;
  return c;
}

// What sessions from their beginning on end with: logits of every 50th step and of the last, and a
// hash of each state's bytes.
struct Outcome {
  std::vector<std::vector<float>> logits;
  std::vector<size_t> states;

  bool operator==(const Outcome&) const = default;
};

class OverlapTest : public testing::TestWithParam<OverlapCase> {
 protected:
  void SetUp() override { TVQ_SKIP_WITHOUT_DEVICE(GetParam().overlapped); }

  static Outcome Decode(Model& model, size_t sessions) {
    const size_t steps = GetParam().steps;
    const int64_t vocab = GetParam().shape.vocab;
    Logits logits = model.NewLogits(static_cast<int64_t>(sessions)).value();
    std::vector<std::unique_ptr<State>> states;
    states.reserve(sessions);
    for (size_t i = 0; i < sessions; ++i) states.push_back(model.NewState().value());
    const std::vector<int32_t> tokens = RandomTokens(steps * sessions, vocab, 1);
    Outcome outcome;
    for (size_t step = 0; step < steps; ++step) {
      std::vector<DecodeRow> rows;
      rows.reserve(sessions);
      for (size_t i = 0; i < sessions; ++i) {
        rows.push_back({states[i].get(), tokens[step * sessions + i], static_cast<int64_t>(i)});
      }
      EXPECT_TRUE(model.Decode(rows, &logits).ok());
      if (step % 50 != 49 && step + 1 != steps) continue;
      for (const DecodeRow& row : rows) {
        auto& read = outcome.logits.emplace_back(static_cast<size_t>(vocab));
        EXPECT_TRUE(model.ReadLogits(logits, row.logits_row, read).ok());
      }
    }
    for (const auto& state : states) {
      const std::vector<std::byte> bytes = Bytes(*state);
      outcome.states.push_back(std::hash<std::string_view>()(
          {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    }
    return outcome;
  }
};

TEST_P(OverlapTest, StepsHaveTheBitsOfKernelsOneByOne) {
  const OverlapCase& c = GetParam();
  const std::pair<DType, StateReads> cases[] = {{DType::kFloat32, {}},
                                                {DType::kBFloat16, {}},
                                                {DType::kInt8, {}},
                                                {DType::kBFloat16, {.int8 = true}},
                                                {DType::kBFloat16, {.skip_mass = 0.1F}}};
  for (const auto& [dtype, reads] : cases) {
    if (!c.shape.has_codes() && (reads.int8 || reads.skip_mass > 0)) continue;
    std::vector<Outcome> expected;
    {
      Fixture one_by_one(c.shape, c.serial, dtype, 2, {}, reads);
      for (const size_t sessions : c.batches) {
        expected.push_back(Decode(one_by_one.model(), sessions));
      }
    }
    Fixture close(c.shape, c.overlapped, dtype, 2, {}, reads);
    for (const bool recorded : {false, true}) {
      if (recorded) {
        const auto rows = static_cast<int64_t>(c.batches.back());
        ASSERT_TRUE(close.model().Prepare({.decode_rows = rows}).ok());
      }
      for (size_t i = 0; i < c.batches.size(); ++i) {
        EXPECT_TRUE(Decode(close.model(), c.batches[i]) == expected[i])
            << Name(dtype) << ", " << c.batches[i] << " sessions, " << (recorded ? "" : "not ")
            << "recorded";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OverlapTest,
                         testing::Values(OnCpu(), OnGpu(), Of("linear_transformer", OnCpu()),
                                         Of("linear_transformer", OnGpu()),
                                         Of("softmax_transformer", OnCpu()),
                                         Of("softmax_transformer", OnGpu())),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tvq::conformance
