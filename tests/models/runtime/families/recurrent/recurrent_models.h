// Small models of the families with recurrent layers, with random weights and a vocabulary of
// FedModel::kVocab.
#ifndef TVQ_TESTS_MODELS_RUNTIME_FAMILIES_RECURRENT_RECURRENT_MODELS_H_
#define TVQ_TESTS_MODELS_RUNTIME_FAMILIES_RECURRENT_RECURRENT_MODELS_H_

#include <memory>
#include <string>

#include "models/runtime/families/families.h"
#include "tests/models/runtime/random_weights.h"

namespace tvq {

inline constexpr char kRwkv7[] = R"({"model_type": "rwkv7", "vocab_size": 29, "hidden_size": 24,
    "num_hidden_layers": 3, "head_dim": 8, "intermediate_size": 40, "decay_low_rank_dim": 4,
    "a_low_rank_dim": 3, "v_low_rank_dim": 5, "gate_low_rank_dim": 6, "prefill_chunk": 64,
    "tokenizer": {"type": "ids"}})";

inline constexpr char kMamba2[] = R"({"model_type": "mamba2", "vocab_size": 29, "hidden_size": 24,
    "num_hidden_layers": 3, "num_heads": 4, "head_dim": 12, "state_size": 10, "n_groups": 2,
    "prefill_chunk": 64, "tie_word_embeddings": true, "tokenizer": {"type": "ids"}})";

// Keys of a layer of attention, and constant parts of the others.
inline constexpr char kQwen35[] = R"({"model_type": "qwen3_5_text", "vocab_size": 29,
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 6, "linear_value_head_dim": 10, "full_attention_interval": 2,
    "prefill_chunk": 64, "max_position_embeddings": 40000,
    "tokenizer": {"type": "ids"}})";

inline absl::StatusOr<std::unique_ptr<Model>> BuildRandom(
    const std::string& json, const std::shared_ptr<Device>& device, int64_t draft_rows = 4,
    WeightSource& weights = *RandomWeights(3)) {
  const absl::StatusOr<Config> config = Config::Parse(json, "config.json");
  if (!config.ok()) return config.status();
  const absl::StatusOr<const Family*> family = FindFamily(*config);
  if (!family.ok()) return family.status();
  LoadOptions options;
  options.device = device;
  options.draft_rows = draft_rows;
  return (*family)->build(**family, *config, weights, nullptr, options);
}

template <const char* kJson>
std::unique_ptr<Model> NewRecurrentModel(const std::shared_ptr<Device>& device) {
  return BuildRandom(kJson, device).value();
}

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_RUNTIME_FAMILIES_RECURRENT_RECURRENT_MODELS_H_
