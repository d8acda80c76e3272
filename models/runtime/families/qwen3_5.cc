// Qwen3.5: layers of the gated delta rule between layers of attention, whose queries and keys are
// normed head by head and whose output has a gate. Norms multiply by 1 + gain.
#include "models/runtime/families/rotary/rotary_transformer.h"

namespace tvq {
namespace {

constexpr RotaryFamily kQwen35 = {.biases = RotaryFamily::Biases::kField,
                                  .head_norms = true,
                                  .gain_offset = 1,
                                  .delta_layers = true,
                                  .rotary_part = 0.25,
                                  .head = 256,
                                  .kv_heads = 4,
                                  .max_position = 32768};

// The defaults of the transformers library.
constexpr char kQwen35Defaults[] = R"({"hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 32, "num_attention_heads": 16, "vocab_size": 248320,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128})";

// Checkpoints have layers that predict several tokens at once, for drafts.
bool IsSpareOfQwen35(std::string_view name) {
  return IsSpareTensor(name) || name.starts_with("mtp.");
}

}  // namespace

Family Qwen35TextFamily() {
  return {"qwen3_5_text",  {},         &BuildRotary<kQwen35>, &IsSpareOfQwen35,
          kQwen35Defaults, {"qwen3_5"}};
}

}  // namespace tvq
