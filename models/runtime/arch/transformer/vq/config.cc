#include "models/runtime/arch/transformer/vq/config.h"

namespace tvq::transformer {

absl::StatusOr<VqConfig> ParseVqConfig(const Config& config) {
  VqConfig c;
  Fields fields(config);
  ReadTransformerConfig(fields, c);
  fields.Int("n_code", &c.n_code, 1, kMaxDim);
  fields.Int("block_len", &c.block_len, 1, kMaxDim);
  fields.Int("mem_len", &c.mem_len, 0, kMaxDim);
  if (!fields.ok()) return fields.status();

  // Each product below is of factors up to 2^20, so none overflows.
  const int64_t window = c.window();
  fields.LimitSize("mem_len and d_model", window, c.d_model);
  fields.LimitSize("mem_len, n_head and d_k", window, c.n_head * c.d_k);
  LimitWorkspace(fields, c);
  fields.LimitSize("prefill_chunk, n_head, n_code and mem_len", c.common.prefill_chunk,
                   c.n_head * (c.n_code + window));
  fields.LimitSize("n_kv_head, n_code and d_v", c.n_kv_head * c.n_code, c.d_v);
  fields.LimitSize("n_kv_head, mem_len and d_v", c.n_kv_head * window, c.d_v);
  if (!fields.ok()) return fields.status();
  return c;
}

}  // namespace tvq::transformer
