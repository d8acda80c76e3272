// Qwen3 (Yang et al. 2025), whose queries and keys are normed head by head.
#include "models/runtime/families/rotary/rotary_transformer.h"

namespace tvq {
namespace {

constexpr RotaryFamily kQwen3 = {.biases = RotaryFamily::Biases::kField,
                                 .head_norms = true,
                                 .window = RotaryFamily::Window::kSwitch,
                                 .head = 128,
                                 .kv_heads = 32,
                                 .max_position = 32768,
                                 .sliding_window = 4096};

// The defaults of the transformers library.
constexpr char kQwen3Defaults[] = R"({"hidden_size": 4096, "intermediate_size": 22016,
    "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 151936})";

}  // namespace

Family Qwen3Family() {
  return {"qwen3", {}, &BuildRotary<kQwen3>, &IsSpareTensor, kQwen3Defaults, {"qwen3_vl_text"}};
}

}  // namespace tvq
