// A family of models: its name, its fields of config.json, and how a model is built from them.
#ifndef TVQ_MODELS_RUNTIME_FAMILIES_FAMILY_H_
#define TVQ_MODELS_RUNTIME_FAMILIES_FAMILY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/runtime/families/transformer/transformer_config.h"
#include "models/runtime/load_options.h"
#include "models/runtime/stack/stack.h"

namespace tvq {

struct Family {
  const char* model_type;
  KindFields fields;
  absl::StatusOr<std::unique_ptr<Model>> (*build)(const Family&, const Config&, WeightSource&,
                                                  std::unique_ptr<Tokenizer>, const LoadOptions&);
  // Whether the weights may hold a tensor of this name although no model uses it; null: no such
  // tensors.
  bool (*spare)(std::string_view name) = nullptr;
  // JSON: defaults of fields that may be missing in the text_config of a larger model.
  const char* part_defaults = "{}";
  // The model_types of models that read more than text, and of their text parts, that this family
  // computes.
  std::vector<std::string_view> text_parts;
};

// One file each.
Family TransformerVqFamily();
Family SoftmaxTransformerFamily();
Family LinearTransformerFamily();
Family LlamaFamily();
Family Mamba2Family();
Family MistralFamily();
Family Qwen2Family();
Family Qwen3Family();
Family Qwen35TextFamily();
Family Rwkv7Family();
Family SoftCodebookFamily();
Family PerformerFamily();
Family VqEncoderFamily();

// Helpers for the files of families.

// Reads the fields that all transformers have, and those of the family.
absl::StatusOr<TransformerConfig> ParseTransformer(const Family& family, const Config& config,
                                                   const LoadOptions& options);

// INVALID_ARGUMENT if states cannot keep their values in the dtype that `options` ask for.
absl::Status CheckStateDType(const LoadOptions& options);

// The longest context that is allowed, in tokens; 0: no limit.
int64_t LongestContext(const CommonConfig& config, const LoadOptions& options, bool states_grow);

// `longest` is the longest context that config.json or the options allow, and `bytes` gives the
// bytes of a state after so many tokens. INVALID_ARGUMENT if the longest context would take far
// more than any memory.
absl::Status CheckLongest(const Config& config, int64_t longest,
                          const std::function<int64_t(int64_t tokens)>& bytes);

// For Family::spare: weights of the logits that repeat those of the embedding.
inline bool IsTiedLogits(std::string_view name) { return name == "lm_head.weight"; }

// A stack of `layers`, with sessions up to LongestContext.
absl::StatusOr<std::unique_ptr<Model>> BuildStack(const Config& config, StackConfig parsed,
                                                  StackLayers layers, WeightSource& weights,
                                                  std::unique_ptr<Tokenizer> tokenizer,
                                                  const LoadOptions& options);

// The same for a model with recurrent layers alone. The context that it was trained with does not
// limit contexts, but a max_position does.
absl::StatusOr<std::unique_ptr<Model>> BuildRecurrent(const Config& config, StackConfig parsed,
                                                      StackLayers layers, WeightSource& weights,
                                                      std::unique_ptr<Tokenizer> tokenizer,
                                                      const LoadOptions& options);

// Family::build for a transformer whose layers are made by `Make`.
template <absl::StatusOr<StackLayers> (*Make)(const TransformerConfig&, const LoadOptions&)>
absl::StatusOr<std::unique_ptr<Model>> BuildTransformer(const Family& family, const Config& config,
                                                        WeightSource& weights,
                                                        std::unique_ptr<Tokenizer> tokenizer,
                                                        const LoadOptions& options) {
  const auto parsed = ParseTransformer(family, config, options);
  if (!parsed.ok()) return parsed.status();
  absl::StatusOr<StackLayers> layers = Make(*parsed, options);
  if (!layers.ok()) return layers.status();
  return BuildStack(config, *parsed, *std::move(layers), weights, std::move(tokenizer), options);
}

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_FAMILIES_FAMILY_H_
