// Qwen2 (Yang et al. 2024) and Qwen2.5, whose queries, keys and values have biases.
#include "models/runtime/families/rotary/rotary_transformer.h"

namespace tvq {
namespace {

constexpr RotaryFamily kQwen2 = {.biases = RotaryFamily::Biases::kQueriesKeysValues,
                                 .window = RotaryFamily::Window::kSwitch,
                                 .kv_heads = 32,
                                 .max_position = 32768,
                                 .sliding_window = 4096};

// The defaults of the transformers library.
constexpr char kQwen2Defaults[] = R"({"hidden_size": 4096, "intermediate_size": 22016,
    "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 151936})";

}  // namespace

Family Qwen2Family() {
  return {"qwen2",
          {},
          &BuildRotary<kQwen2>,
          &IsSpareTensor,
          kQwen2Defaults,
          {"qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"}};
}

}  // namespace tvq
