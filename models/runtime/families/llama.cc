// Llama (Touvron et al. 2023), and models of the same architecture, such as SmolLM2.
#include "models/runtime/families/rotary/rotary_transformer.h"

namespace tvq {
namespace {

constexpr RotaryFamily kLlama = {
    .biases = RotaryFamily::Biases::kField, .mlp_bias_field = true, .max_position = 2048};

// The defaults of the transformers library.
constexpr char kLlamaDefaults[] = R"({"hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000})";

}  // namespace

Family LlamaFamily() { return {"llama", {}, &BuildRotary<kLlama>, &IsSpareTensor, kLlamaDefaults}; }

}  // namespace tvq
