#include "models/runtime/arch/transformer/linear/config.h"

namespace tvq::transformer {

absl::StatusOr<LinearConfig> ParseLinearConfig(const Config& config) {
  LinearConfig c;
  Fields fields(config);
  ReadTransformerConfig(fields, c);
  fields.Refuse("n_code", "linear attention has no codebook");
  fields.Refuse("mem_len", "linear attention has no positional bias");
  int64_t block_len = 1;  // of training
  fields.Int("block_len", &block_len, 1, kMaxDim, block_len);
  if (!fields.ok()) return fields.status();

  LimitWorkspace(fields, c);
  fields.LimitSize("n_kv_head, d_k and d_v", c.n_kv_head * c.d_k, c.d_v);
  if (!fields.ok()) return fields.status();
  return c;
}

}  // namespace tvq::transformer
