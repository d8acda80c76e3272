#include "models/runtime/arch/transformer/workspace.h"

#include <utility>

#include "models/runtime/arch/transformer/memory_parts.h"

namespace tvq::transformer {

absl::StatusOr<Workspace> Workspace::Create(Device& device, const TransformerConfig& c,
                                            size_t view_bytes) {
  Workspace w;
  w.rows_ = c.rows();
  w.d_model_ = c.d_model;
  w.heads_ = c.n_head;
  w.kv_heads_ = c.n_kv_head;
  w.value_ = c.d_v;
  w.hidden_width_ = c.d_ff;
  w.vocab_ = c.common.vocab_size;

  const int64_t n = w.rows_;
  MemoryParts parts;
  parts.Add(&w.x_, n * c.d_model);
  parts.Add(&w.normed_, n * c.d_model);
  parts.Add(&w.v_, n * c.n_kv_head * c.d_v);
  if (c.block == Block::kGated) parts.Add(&w.g_, n * c.n_head * c.d_v);
  if (c.block == Block::kStandard) parts.Add(&w.hidden_, n * c.d_ff);
  parts.Add(&w.o_, n * c.n_head * c.d_v);
  parts.Add(&w.score_logits_, kScoreRows * c.common.vocab_size);
  absl::StatusOr<Buffer> memory = parts.Allocate(device);
  if (!memory.ok()) return memory.status();
  w.memory_ = *std::move(memory);
  absl::StatusOr<RowInputs> inputs = RowInputs::Create(device, n, c.n_layer, view_bytes);
  if (!inputs.ok()) return inputs.status();
  w.inputs_ = *std::move(inputs);
  return w;
}

}  // namespace tvq::transformer
