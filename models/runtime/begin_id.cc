#include "models/runtime/begin_id.h"

namespace tvq {

std::optional<int32_t> BosTokenId(const ModelInfo& info) {
  return info.generation.bos_token_id ? info.generation.bos_token_id : info.config.bos_token_id;
}

bool AddsBosToken(const ModelInfo& info) {
  return info.predicts && info.generation.add_bos_token && BosTokenId(info).has_value();
}

bool AddBosToken(const ModelInfo& info, std::vector<int32_t>* ids) {
  if (!AddsBosToken(info)) return false;
  const int32_t bos = *BosTokenId(info);
  if (!ids->empty() && ids->front() == bos) return false;
  ids->insert(ids->begin(), bos);
  return true;
}

}  // namespace tvq
