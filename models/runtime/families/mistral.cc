// Mistral (Jiang et al. 2023), for contexts no longer than its sliding window.
#include "models/runtime/families/rotary/rotary_transformer.h"

namespace tvq {
namespace {

constexpr RotaryFamily kMistral = {.window = RotaryFamily::Window::kField,
                                   .kv_heads = 8,
                                   .max_position = 131072,
                                   .sliding_window = 4096};

// The defaults of the transformers library.
constexpr char kMistralDefaults[] = R"({"hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000})";

}  // namespace

Family MistralFamily() {
  return {"mistral", {}, &BuildRotary<kMistral>, &IsSpareTensor, kMistralDefaults};
}

}  // namespace tvq
