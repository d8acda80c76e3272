// Shape and options of a transformer with rotary positions, as the config.json of a Hugging Face
// directory has them.
#ifndef TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_ROTARY_CONFIG_H_
#define TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_ROTARY_CONFIG_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/config/config.h"
#include "models/runtime/layers/attention/rotary/rotary_attention_config.h"
#include "models/runtime/layers/recurrent/convolved/gated_delta_layer.h"
#include "models/runtime/stack/stack_config.h"

namespace tvq {

// The differences between the families, and their defaults of fields that config.json leaves out.
struct RotaryFamily {
  enum class Biases : uint8_t {
    kNone,
    kField,  // all projections of attention have one if attention_bias is true
    kQueriesKeysValues,
  };
  enum class Window : uint8_t {
    kNone,
    kField,   // if sliding_window is not null
    kSwitch,  // if also use_sliding_window is true
  };
  Biases biases = Biases::kNone;
  bool mlp_bias_field = false;
  bool head_norms = false;
  float gain_offset = 0;  // is added to the gains of norms that the checkpoint has
  // Some layers have the gated delta rule in place of attention, and attention has an output gate.
  bool delta_layers = false;
  double rotary_part = 1;  // of a head's numbers
  Window window = Window::kNone;
  int64_t head = 0;      // 0: hidden_size / num_attention_heads
  int64_t kv_heads = 0;  // 0: num_attention_heads
  int64_t max_position = 0;
  int64_t sliding_window = 0;
};

struct RotaryConfig : StackConfig {
  int64_t n_layer = 0;
  int64_t d_ff = 0;
  bool mlp_biases = false;
  RotaryAttentionConfig attention;
  std::vector<bool> delta_layers;  // [n_layer], which layers have the gated delta rule; or empty
  GatedDeltaLayer::Config delta;
  std::vector<float> frequencies;  // [R/2], in radians per position
  int64_t window = 0;              // the longest context; 0: no limit
};

// INVALID_ARGUMENT, naming the field and what would be right; also for a field that changes what is
// computed in a way that is not supported.
absl::StatusOr<RotaryConfig> ParseRotaryConfig(const Config& config, const RotaryFamily& family);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_ROTARY_ROTARY_CONFIG_H_
