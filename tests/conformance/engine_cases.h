// What the engine's conformance tests run on: every kind of device with every type of weights, and
// engines on it with a small network of each kind of attention.
#ifndef TVQ_TESTS_CONFORMANCE_ENGINE_CASES_H_
#define TVQ_TESTS_CONFORMANCE_ENGINE_CASES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "models/runtime/registry/registry.h"
#include "models/runtime/tokenizer/tokenizer.h"
#include "server/engine/engine.h"
#include "tests/conformance/oracle.h"
#include "tests/conformance/test_weights.h"
#include "tests/kernels/test_devices.h"
#include "tests/models/runtime/families/recurrent/recurrent_models.h"

namespace tvq::conformance {

struct EngineCase {
  DeviceCase device;
  DType dtype = DType::kFloat32;
  int threads = 1;  // of the CPU
  std::string kind = "transformer_vq";
  std::string block = "gated";
  bool converted = false;  // of a family with rotary positions
  bool growing = false;    // converted, with heads that keep all keys
  // The config.json of a model with recurrent layers, in place of a network of the other fields.
  const char* recurrent = nullptr;

  // Kernels run on fibers here: a thousand times slower than elsewhere, so once, with one type. The
  // others' kernels are the models' tests'.
  bool stand_in() const { return device.name == "cuda_stand_in"; }
  // Those of which the continuations meet a thousand interleavings: a state of pages, one of rings,
  // one of both, and one of recurrent layers and pages.
  bool thorough() const {
    return device.name == "cpu" &&
           (kind == "qwen3" || ((converted || kind == "qwen3_5") && dtype == DType::kFloat32));
  }
  bool drafts() const { return device.name == "cpu" && kind != "linear_transformer"; }
};

inline std::vector<EngineCase> EngineCases() {
  std::vector<EngineCase> cases;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt8}) {
    cases.push_back({{"cpu", ""}, dtype, 1});
    cases.push_back({{"cpu", ""}, dtype, 3});
    cases.push_back({{"cuda", ""}, dtype, 1});
  }
  cases.push_back({{"cpu", ""}, DType::kInt4, 3});
  cases.push_back({{"cuda_stand_in", "shuffled"}, DType::kBFloat16, 1});
  // The other kinds have the same engine: each once in either block.
  for (const char* kind : {"linear_transformer", "softmax_transformer"}) {
    cases.push_back({{"cpu", ""}, DType::kFloat32, 3, kind, "gated"});
    cases.push_back({{"cpu", ""}, DType::kBFloat16, 1, kind, "standard"});
    cases.push_back({{"cuda", ""}, DType::kFloat32, 1, kind, "gated"});
    cases.push_back({{"cuda", ""}, DType::kBFloat16, 1, kind, "standard"});
  }
  cases.push_back({{"cpu", ""}, DType::kFloat32, 3, "qwen3", "standard"});
  cases.push_back({{"cuda", ""}, DType::kFloat32, 1, "qwen3", "standard"});
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt8}) {
    cases.push_back({{"cpu", ""}, dtype, 3, "llama", "standard", true});
  }
  cases.push_back({{"cuda", ""}, DType::kBFloat16, 1, "llama", "standard", true});
  cases.push_back({{"cpu", ""}, DType::kFloat32, 2, "llama", "standard", true, true});
  for (const auto& [kind, json] :
       {std::pair("rwkv7", kRwkv7), std::pair("mamba2", kMamba2), std::pair("qwen3_5", kQwen35)}) {
    for (const auto& [device, dtype, threads] :
         {std::tuple("cpu", DType::kFloat32, 3), std::tuple("cpu", DType::kInt8, 2),
          std::tuple("cuda", DType::kFloat32, 1)}) {
      cases.push_back({{device, ""}, dtype, threads, kind, "standard"});
      cases.back().recurrent = json;
    }
  }
  return cases;
}

inline std::string NameOf(const EngineCase& c) {
  return NameOf(c.device) + "_" + Name(c.dtype) +
         (c.device.name == "cpu" ? "_" + std::to_string(c.threads) + "_threads" : "") +
         (c.kind == "transformer_vq" ? "" : "_" + c.kind + "_" + c.block) +
         (c.converted ? "_converted" : "") + (c.growing ? "_growing" : "");
}
inline void PrintTo(const EngineCase& c, std::ostream* out) { *out << NameOf(c); }

// Sequences that compute at once, and tokens of a round; drafts of a step, where there may be some.
struct Limits {
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;
  int64_t draft_tokens = 0;
};

inline std::unique_ptr<Engine> MakeEngine(const EngineCase& on, int64_t prefill_chunk,
                                          const Limits& limits) {
  Shape shape;
  shape.kind = on.kind;
  shape.block = on.block;
  shape.vocab = 259;
  shape.n_head = 2;
  shape.n_kv_head = 1;
  shape.mem_len = 13;
  shape.prefill_chunk = prefill_chunk;
  if (on.converted) {
    shape.ring = 64;
    shape.wide = 128;
    shape.growing = on.growing;
    shape.trained = (shape.wide + prefill_chunk - 1) / prefill_chunk * prefill_chunk;
  }
  LoadOptions options;
  options.device = MakeTestDevice(on.device, on.threads);
  options.dtype = on.dtype;
  options.draft_rows = limits.draft_tokens;
  const std::string json =
      on.recurrent == nullptr
          ? shape.Json()
          : absl::StrReplaceAll(on.recurrent, {{"\"vocab_size\": 29", "\"vocab_size\": 259"},
                                               {"\"prefill_chunk\": 64",
                                                absl::StrCat("\"prefill_chunk\": ", prefill_chunk)},
                                               {"\"ids\"", "\"bytes\""}});
  const Config config = Config::Parse(json, "test").value();
  TestWeights weights(1);
  std::shared_ptr<Model> model =
      BuildModel(config, weights, LoadTokenizer("", config.Common().value()).value(), options)
          .value();
  EngineOptions engine;
  engine.max_num_seqs = limits.max_num_seqs;
  engine.max_num_batched_tokens = limits.max_num_batched_tokens;
  // Of the stand-in's memory every byte is closed again behind every kernel.
  engine.state_memory_bytes = int64_t{1} << (on.stand_in() ? 20 : 28);
  return Engine::Create({{.name = "m", .model = std::move(model)}}, engine).value();
}

}  // namespace tvq::conformance

#endif  // TVQ_TESTS_CONFORMANCE_ENGINE_CASES_H_
