#include "models/runtime/arch/transformer_vq/workspace.h"

#include <algorithm>
#include <utility>

namespace tvq::transformer_vq {

absl::StatusOr<Workspace> Workspace::Create(Device& device, const VqConfig& c) {
  Workspace w;
  w.rows_ = std::max(c.common.prefill_chunk, kMinRows);
  w.d_model_ = c.d_model;
  w.heads_ = c.n_head;
  w.kv_heads_ = c.n_kv_head;
  w.key_ = c.d_k;
  w.value_ = c.d_v;
  w.codes_ = c.n_code;
  w.window_ = c.window();
  w.vocab_ = c.common.vocab_size;

  struct Part {
    float** pointer;
    int64_t floats;
  };
  const int64_t n = w.rows_;
  const Part parts[] = {
      {&w.x_, n * c.d_model},
      {&w.normed_, n * c.d_model},
      {&w.q_u_, n * c.n_head * c.d_k},
      {&w.q_w_, n * c.n_head * c.d_k},
      {&w.k_, n * c.n_kv_head * c.d_k},
      {&w.v_, n * c.n_kv_head * c.d_v},
      {&w.g_, n * c.n_head * c.d_v},
      {&w.o_, n * c.n_head * c.d_v},
      {&w.code_scores_, n * c.n_head * c.n_code},
      {&w.position_scores_, n * c.n_head * c.window()},
      {&w.score_logits_, kScoreRows * c.common.vocab_size},
  };
  auto aligned = [](int64_t floats) { return (floats + 15) / 16 * 16; };
  int64_t floats = aligned(n * c.n_kv_head);  // codes
  for (const Part& part : parts) floats += aligned(part.floats);
  absl::StatusOr<Buffer> memory = device.Allocate(static_cast<size_t>(floats) * sizeof(float));
  if (!memory.ok()) return memory.status();
  float* next = memory->as<float>();
  for (const Part& part : parts) {
    *part.pointer = next;
    next += aligned(part.floats);
  }
  w.code_ = reinterpret_cast<int32_t*>(next);
  w.memory_ = *std::move(memory);
  absl::StatusOr<RowInputs> inputs = RowInputs::Create(device, n, c.n_layer);
  if (!inputs.ok()) return inputs.status();
  w.inputs_ = *std::move(inputs);
  return w;
}

}  // namespace tvq::transformer_vq
