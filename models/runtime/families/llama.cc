// Llama (Touvron et al. 2023), and what has its shape, such as SmolLM2.
#include "models/runtime/families/rotary/rotary_transformer.h"

namespace tvq {
namespace {

constexpr RotaryFamily kLlama = {
    .biases = RotaryFamily::Biases::kField, .mlp_bias_field = true, .max_position = 2048};

}  // namespace

Family LlamaFamily() { return {"llama", {}, &BuildRotary<kLlama>, &IsSpareTensor}; }

}  // namespace tvq
