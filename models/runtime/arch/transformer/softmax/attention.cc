#include "models/runtime/arch/transformer/softmax/attention.h"

#include <cstring>
#include <utility>

#include "kernels/ops/attention/head_scores.h"
#include "kernels/ops/attention/softmax_attention.h"
#include "models/runtime/arch/transformer/memory_parts.h"

namespace tvq::transformer {

SoftmaxAttention::SoftmaxAttention(const TransformerConfig& config, Device& device,
                                   DType state_dtype)
    : device_(device),
      layout_{.shape = {config.n_kv_head, config.d_k, config.d_v, state_dtype},
              .layers = config.n_layer,
              .max_position = config.common.max_position},
      queries_(config) {}

void SoftmaxAttention::LoadLayer(const std::string& prefix, WeightLoader& loader) {
  queries_.LoadLayer(prefix, loader);
}

absl::Status SoftmaxAttention::Reserve(int64_t rows) {
  MemoryParts parts;
  queries_.AddMemory(rows, parts);
  absl::StatusOr<Buffer> memory = parts.Allocate(device_);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SessionState>> SoftmaxAttention::NewState(StateMemory memory) {
  return PagedState::Create(device_, layout_, memory);
}

void SoftmaxAttention::View(const SessionState& state, int64_t, std::byte* view) const {
  const KeyValuePages pages = static_cast<const PagedState&>(state).pages();
  std::memcpy(view, &pages, sizeof(pages));
}

absl::Status SoftmaxAttention::Prefill(int64_t layer, const SessionState& state,
                                       const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  if (absl::Status s = HeadScores(device_, queries_.PositionScores(layer, n)); !s.ok()) return s;
  SoftmaxPrefillAttentionArgs args;
  args.shape = layout_.shape;
  args.layer_offset = layout_.LayerOffset(layer);
  args.pages = static_cast<const PagedState&>(state).pages();
  args.position = state.position();
  args.q = queries_.q_u(n);
  args.position_scores = queries_.position_scores(n);
  args.k = queries_.k(n);
  args.v = rows.v;
  args.out = rows.out;
  return SoftmaxPrefillAttention(device_, args);
}

absl::Status SoftmaxAttention::Decode(int64_t layer, const RowInputs& inputs,
                                      const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  if (absl::Status s = HeadScores(device_, queries_.PositionScores(layer, n)); !s.ok()) return s;
  SoftmaxDecodeAttentionArgs args;
  args.shape = layout_.shape;
  args.layer_offset = layout_.LayerOffset(layer);
  args.sessions = inputs.views<KeyValuePages>(layer);
  args.positions = inputs.positions();
  args.q = queries_.q_u(n);
  args.position_scores = queries_.position_scores(n);
  args.k = queries_.k(n);
  args.v = rows.v;
  args.out = rows.out;
  return SoftmaxDecodeAttention(device_, args);
}

}  // namespace tvq::transformer
