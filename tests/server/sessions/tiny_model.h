// A real model of a few hundred weights, for what the fake one has no state for.
#ifndef TVQ_TESTS_SERVER_SESSIONS_TINY_MODEL_H_
#define TVQ_TESTS_SERVER_SESSIONS_TINY_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "models/runtime/registry/registry.h"
#include "tests/models/runtime/random_weights.h"

namespace tvq::fixtures {

inline constexpr int32_t kTinyVocab = 11;

// Whose states can be cut.
inline std::unique_ptr<Model> TinySoftmax() {
  LoadOptions options;
  options.device = MakeDevice("cpu", 1).value();
  const Config config = Config::Parse(R"({"model_type": "softmax_transformer", "vocab_size": 11,
      "d_model": 8, "d_k": 4, "d_v": 5, "n_layer": 2, "n_head": 2, "mem_len": 4,
      "max_position": 512, "tokenizer": {"type": "ids"}})",
                                      "config.json")
                            .value();
  return BuildModel(config, *RandomWeights(1), nullptr, options).value();
}

inline std::unique_ptr<Model> TinyModel(uint64_t seed = 1, DType dtype = DType::kFloat32,
                                        DType state_dtype = DType::kFloat32,
                                        const std::string& more = "") {
  LoadOptions options;
  options.device = MakeDevice("cpu", 1).value();
  options.dtype = dtype;
  options.state_dtype = state_dtype;
  const Config config = Config::Parse(R"({"model_type": "transformer_vq", "vocab_size": 11,
      "d_model": 8, "d_k": 4, "d_v": 5, "n_code": 3, "n_layer": 2, "n_head": 2, "block_len": 4,
      "mem_len": 4, "tokenizer": {"type": "ids"})" +
                                          more + "}",
                                      "config.json")
                            .value();
  return BuildModel(config, *RandomWeights(seed), nullptr, options).value();
}

// A state and the logits after it.
struct Fed {
  std::unique_ptr<State> state;
  std::vector<float> logits;
};

// Tokens 1, 2, 3, ... of the vocabulary, one after the other.
inline Fed FeedTokens(Model& model, int64_t count, int32_t first = 1) {
  Fed fed{model.NewState().value(), std::vector<float>(kTinyVocab)};
  Logits logits = model.NewLogits(1).value();
  for (int64_t i = 0; i < count; ++i) {
    const DecodeRow row{fed.state.get(), static_cast<int32_t>((first + i) % kTinyVocab), 0};
    if (!model.Decode({&row, 1}, &logits).ok()) std::abort();
  }
  if (count == 0) return {std::move(fed.state), {}};
  if (!model.ReadLogits(logits, 0, fed.logits).ok()) std::abort();
  return fed;
}

// The logits after `token`, which the state is fed.
inline std::vector<float> StepOnce(Model& model, State& state, int32_t token) {
  Logits logits = model.NewLogits(1).value();
  const DecodeRow row{&state, token, 0};
  if (!model.Decode({&row, 1}, &logits).ok()) std::abort();
  std::vector<float> values(kTinyVocab);
  if (!model.ReadLogits(logits, 0, values).ok()) std::abort();
  return values;
}

}  // namespace tvq::fixtures

#endif  // TVQ_TESTS_SERVER_SESSIONS_TINY_MODEL_H_
