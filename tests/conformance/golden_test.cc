// The reference implementation's checkpoints, and models of other kinds than its own, on devices
// that tvq-verify cannot name or that a machine may lack, and sessions that move between devices.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "models/runtime/registry/registry.h"
#include "models/verify/compare.h"
#include "models/verify/expected.h"
#include "models/verify/rounding.h"
#include "tests/kernels/test_devices.h"

namespace tvq::conformance {
namespace {

using verify::Codes;
using verify::Compare;
using verify::Comparison;
using verify::ExpectedSequence;
using verify::Mode;

constexpr char kGolden[] = "tests/golden/";

std::unique_ptr<Model> Load(const std::string& name, std::shared_ptr<Device> device, DType dtype) {
  LoadOptions options;
  options.device = std::move(device);
  options.dtype = dtype;
  auto model = LoadModel(kGolden + name, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// The first `tokens` tokens of the text, with a row for each.
ExpectedSequence BeginningOfText(const std::string& name, size_t tokens, int64_t vocab) {
  const std::string file = kGolden + name + "/expected.safetensors";
  std::vector<ExpectedSequence> all = verify::ReadExpected(file, vocab).value();
  const auto text = std::find_if(all.begin(), all.end(),
                                 [](const ExpectedSequence& s) { return s.name == "text"; });
  EXPECT_EQ(text->row_count, static_cast<int64_t>(text->tokens.size()));
  text->tokens.resize(tokens);
  text->row_count = static_cast<int64_t>(tokens);
  text->rows.resize(tokens * static_cast<size_t>(vocab));
  text->targets.clear();
  return *text;
}

struct Case {
  std::string model;
  DeviceCase device;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const DeviceCase& device :
       {DeviceCase{"cuda_stand_in", "shuffled"}, DeviceCase{"cuda", ""}}) {
    for (const char* model :
         {"bytes_untied", "pieces_tied", "pixels_abs", "heads_unequal",
          "families/linear_gated_multi_query", "families/linear_standard_grouped",
          "families/softmax_gated_multi_query", "families/softmax_standard_grouped"}) {
      cases.push_back({model, device});
    }
  }
  return cases;
}

class GoldenTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam().device);
    device_ = MakeTestDevice(GetParam().device);
  }

  std::shared_ptr<Device> device_;
};

// Farther than the reach of every one of them, so that positions retire; prefill beyond a block.
TEST_P(GoldenTest, GivesTheReferencesProbabilities) {
  const std::unique_ptr<Model> model = Load(GetParam().model, device_, DType::kFloat32);
  const int64_t vocab = model->info().config.vocab_size;
  for (const Mode mode : {Mode::kPrefill, Mode::kStep}) {
    const size_t tokens = mode == Mode::kPrefill ? 70 : 36;
    const auto text = BeginningOfText(GetParam().model, tokens, vocab);
    const absl::StatusOr<Comparison> compared = Compare(*model, text, mode);
    ASSERT_TRUE(compared.ok()) << compared.status();
    EXPECT_GE(compared->compared, static_cast<int64_t>(tokens) * vocab);
    EXPECT_LE(compared->max_difference, 1e-4) << Name(mode);
  }
}

// A session's canonical bytes.
std::vector<std::byte> Bytes(const State& state) {
  std::vector<std::byte> all;
  EXPECT_TRUE(state
                  .VisitSections([&](const SectionInfo&, std::span<const std::byte> bytes) {
                    all.insert(all.end(), bytes.begin(), bytes.end());
                    return absl::OkStatus();
                  })
                  .ok());
  return all;
}

void Move(const State& from, State& to) {
  const std::vector<std::byte> bytes = Bytes(from);
  auto next = bytes.begin();
  const absl::Status status =
      to.Load(from.position(), [&](const SectionInfo&, std::span<std::byte> out) {
        std::copy_n(next, out.size(), out.begin());
        next += static_cast<ptrdiff_t>(out.size());
        return absl::OkStatus();
      });
  ASSERT_TRUE(status.ok()) << status;
  // The same device and another hold the same bytes.
  EXPECT_EQ(Bytes(to), bytes);
}

// Feeds tokens to sessions of one model; takes the codes of keys, if they have any, from a list, or
// adds them to it.
class Feeder {
 public:
  Feeder(Model& model, Codes& codes, bool forced) : model_(model), logits_(*model.NewLogits(1)) {
    if (model.quantized_keys() == nullptr) return;
    model.quantized_keys()->SetTap([this, &codes, forced](int64_t, Matrix<int32_t> assigned) {
      for (int64_t i = 0; i < assigned.size(); ++i) {
        if (forced) {
          assigned.data[i] = codes[next_++];
        } else {
          codes.push_back(assigned.data[i]);
        }
      }
    });
  }
  ~Feeder() {
    if (model_.quantized_keys() != nullptr) model_.quantized_keys()->SetTap({});
  }

  void StartAt(size_t code) { next_ = code; }

  std::vector<double> Step(State& state, int32_t token) {
    const DecodeRow row{&state, token, 0};
    EXPECT_TRUE(model_.Decode({&row, 1}, &logits_).ok());
    std::vector<float> logits(static_cast<size_t>(logits_.view.dim(1)));
    EXPECT_TRUE(model_.ReadLogits(logits_, 0, logits).ok());
    double sum = 0;
    for (const float l : logits) sum += std::exp(static_cast<double>(l));
    std::vector<double> logprobs;
    logprobs.reserve(logits.size());
    for (const float l : logits) logprobs.push_back(l - std::log(sum));
    return logprobs;
  }

 private:
  Model& model_;
  Logits logits_;
  size_t next_ = 0;
};

// From the CPU to this device and back, 16 tokens at a place: within the bounds that hold for the
// devices themselves, codes forced. float32: each is within 1e-4 of the reference. bfloat16 and
// int8: both devices have the same weights and round at the same places, but not always to the same
// side: sqrt(2) times what that may do to one of them.
TEST_P(GoldenTest, ASessionMovesThereAndBack) {
  constexpr size_t kTokens = 48, kStay = 16;
  const std::shared_ptr<Device> cpu = MakeTestDevice("cpu");
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt8}) {
    const auto here = Load(GetParam().model, cpu, dtype);
    const auto there = Load(GetParam().model, device_, dtype);
    const auto tokens =
        BeginningOfText(GetParam().model, kTokens, here->info().config.vocab_size).tokens;
    Codes codes;
    std::vector<std::vector<double>> expected;
    {
      Feeder feeder(*here, codes, false);
      const auto state = here->NewState().value();
      for (const int32_t token : tokens) expected.push_back(feeder.Step(*state, token));
    }
    const size_t codes_per_token = codes.size() / kTokens;

    std::unique_ptr<State> state = here->NewState().value();
    double squares = 0, spread = 0, largest = 0;
    Feeder on_cpu(*here, codes, true), on_device(*there, codes, true);
    for (size_t i = 0; i < kTokens; ++i) {
      const bool moved = i / kStay % 2 == 1;
      if (i % kStay == 0 && i > 0) {
        auto arrived = (moved ? *there : *here).NewState().value();
        Move(*state, *arrived);
        state = std::move(arrived);
      }
      Feeder& feeder = moved ? on_device : on_cpu;
      feeder.StartAt(i * codes_per_token);
      const std::vector<double> row = feeder.Step(*state, tokens[i]);
      double mean = 0;
      for (const double p : expected[i]) mean += p / static_cast<double>(row.size());
      for (size_t j = 0; j < row.size(); ++j) {
        const double difference = row[j] - expected[i][j];
        largest = std::max(largest, std::abs(difference));
        squares += difference * difference;
        spread += (expected[i][j] - mean) * (expected[i][j] - mean);
      }
    }
    if (dtype == DType::kFloat32) {
      EXPECT_LE(largest, 2 * verify::kFloat32Tolerance);
    } else {
      const double bound =
          std::sqrt(2.0) * verify::RoundingBound(there->info(), verify::Weights::kSame);
      EXPECT_LE(std::sqrt(squares), bound * std::sqrt(spread)) << Name(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::ValuesIn(Cases()), [](const auto& info) {
  const std::string& model = info.param.model;
  return NameOf(info.param.device) + "_" + model.substr(model.find('/') + 1);
});

}  // namespace
}  // namespace tvq::conformance
