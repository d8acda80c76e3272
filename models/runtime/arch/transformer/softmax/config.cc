#include "models/runtime/arch/transformer/softmax/config.h"

namespace tvq::transformer {

absl::StatusOr<SoftmaxConfig> ParseSoftmaxConfig(const Config& config) {
  SoftmaxConfig c;
  Fields fields(config);
  ReadTransformerConfig(fields, c);
  fields.Refuse("n_code", "softmax attention has no codebook");
  int64_t block_len = 1;  // of training
  fields.Int("block_len", &block_len, 1, kMaxDim, block_len);
  fields.Int("mem_len", &c.mem_len, 0, kMaxDim);
  if (!fields.ok()) return fields.status();

  const int64_t window = c.window();
  fields.LimitSize("mem_len and d_model", window, c.d_model);
  fields.LimitSize("mem_len, n_head and d_k", window, c.n_head * c.d_k);
  LimitWorkspace(fields, c);
  fields.LimitSize("prefill_chunk, n_head and mem_len", c.common.prefill_chunk, c.n_head * window);
  if (!fields.ok()) return fields.status();
  return c;
}

}  // namespace tvq::transformer
