// A model with test weights on a device under test, and ways to feed it.
#ifndef TVQ_TESTS_CONFORMANCE_FIXTURE_H_
#define TVQ_TESTS_CONFORMANCE_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "models/runtime/registry/registry.h"
#include "tests/conformance/oracle.h"
#include "tests/conformance/test_weights.h"
#include "tests/kernels/test_devices.h"

namespace tvq::conformance {

inline std::vector<int32_t> RandomTokens(size_t n, int64_t vocab, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens(n);
  for (int32_t& t : tokens) t = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab));
  return tokens;
}

// A model of `shape` on a device, and ways to feed it.
class Fixture {
 public:
  Fixture(const Shape& shape, const DeviceCase& backend, DType dtype, int threads = 2,
          std::optional<DType> state_dtype = {}, const StateReads& reads = {},
          int64_t draft_rows = 0)
      : shape_(shape), weights_(1, /*unused_code=*/!shape.soft()) {
    device_ = MakeTestDevice(backend, threads);
    LoadOptions options;
    options.device = device_;
    options.dtype = dtype;
    options.state_dtype = state_dtype;
    options.reads = reads;
    options.draft_rows = draft_rows;
    const Config config = Config::Parse(shape.Json(), "test").value();
    auto model = BuildModel(config, weights_, nullptr, options);
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    logits_ = model_->NewLogits(80).value();
  }

  Model& model() { return *model_; }
  WeightSource& weights() { return weights_; }
  std::unique_ptr<State> NewState() { return model_->NewState().value(); }

  std::vector<float> Row(int64_t row) {
    std::vector<float> host(static_cast<size_t>(shape_.vocab));
    EXPECT_TRUE(device_->CopyToHost(host.data(), logits_.view.row(row), host.size() * 4).ok());
    return host;
  }

  std::vector<float> Step(State& state, int32_t token) {
    const DecodeRow row{&state, token, 0};
    EXPECT_TRUE(model_->Decode({&row, 1}, &logits_).ok());
    return Row(0);
  }

  // Logits after the last token. `cut` gives the length of the next call, from what remains.
  template <typename Cut>
  std::vector<float> Prefill(State& state, std::span<const int32_t> tokens, const Cut& cut) {
    while (!tokens.empty()) {
      const int64_t wanted = cut(static_cast<int64_t>(tokens.size()));
      const auto n = static_cast<size_t>(NextChunk(state.position(), wanted, shape_.prefill_chunk));
      PrefillChunk chunk;
      chunk.state = &state;
      chunk.tokens = tokens.first(n);
      chunk.logits_row = 0;
      EXPECT_TRUE(model_->Prefill(chunk, &logits_).ok());
      tokens = tokens.subspan(n);
    }
    return Row(0);
  }
  std::vector<float> Prefill(State& state, std::span<const int32_t> tokens) {
    return Prefill(state, tokens, [](int64_t remaining) { return remaining; });
  }

  // Rows of logits of one decode call over several states, or several tokens of one.
  std::vector<std::vector<float>> Batch(const std::vector<State*>& states,
                                        const std::vector<int32_t>& tokens) {
    std::vector<DecodeRow> rows;
    rows.reserve(states.size());
    for (size_t i = 0; i < states.size(); ++i) {
      rows.push_back({states[i], tokens[i], static_cast<int64_t>(i)});
    }
    const absl::Status status = model_->Decode(rows, &logits_);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<std::vector<float>> result;
    result.reserve(states.size());
    for (size_t i = 0; i < states.size(); ++i) result.push_back(Row(static_cast<int64_t>(i)));
    return result;
  }

  // Replaces the codes of the position(s) a call feeds by the oracle's, if keys have codes.
  void Force(const OracleRun& run, const State& state) {
    if (model_->quantized_keys() == nullptr) return;
    model_->quantized_keys()->SetTap([&run, &state](int64_t layer, Matrix<int32_t> codes) {
      const auto& all = run.codes[static_cast<size_t>(layer)];
      std::copy_n(all.begin() + state.position() * codes.dim(1), codes.size(), codes.data);
    });
  }

 private:
  Shape shape_;
  TestWeights weights_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  Logits logits_;
};

// A state's canonical bytes.
inline std::vector<std::byte> Bytes(const State& state) {
  std::vector<std::byte> all;
  EXPECT_TRUE(state
                  .VisitSections([&](const SectionInfo&, std::span<const std::byte> bytes) {
                    all.insert(all.end(), bytes.begin(), bytes.end());
                    return absl::OkStatus();
                  })
                  .ok());
  return all;
}

// Loads what Bytes gave.
inline absl::Status LoadBytes(State& state, int64_t position, const std::vector<std::byte>& bytes) {
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

}  // namespace tvq::conformance

#endif  // TVQ_TESTS_CONFORMANCE_FIXTURE_H_
