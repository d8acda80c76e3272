#include "models/runtime/begin_id.h"

namespace tvq {

std::optional<int32_t> BosTokenId(const ModelInfo& info) {
  return info.generation.bos_token_id ? info.generation.bos_token_id : info.config.bos_token_id;
}

std::vector<int32_t> EndIds(const ModelInfo& info) {
  if (!info.generation.end_ids.empty()) return info.generation.end_ids;
  std::vector<int32_t> ids = info.config.more_end_ids;
  if (info.config.eos_token_id) ids.insert(ids.begin(), *info.config.eos_token_id);
  return ids;
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
