// The token id that a context begins with, and the ids that end an answer: bos_token_id,
// add_bos_token and eos_token_id of generation_config.json.
#ifndef TVQ_MODELS_RUNTIME_BEGIN_ID_H_
#define TVQ_MODELS_RUNTIME_BEGIN_ID_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "models/runtime/model.h"

namespace tvq {

// bos_token_id of generation_config.json, or of config.json if the first has none.
std::optional<int32_t> BosTokenId(const ModelInfo& info);

// eos_token_id of generation_config.json, or of config.json if the first has none; may be empty.
std::vector<int32_t> EndIds(const ModelInfo& info);

// Whether the model was trained so that a text begins with BosTokenId.
bool AddsBosToken(const ModelInfo& info);

// Puts the begin id before `ids`, the tokens of a text that begins a context. Does nothing if the
// model adds none, or if the text itself begins with it. Returns whether it was put there.
bool AddBosToken(const ModelInfo& info, std::vector<int32_t>* ids);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_BEGIN_ID_H_
