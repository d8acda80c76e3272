#include "models/runtime/layers/attention/softmax/core.h"

#include <cstring>
#include <utility>

#include "kernels/ops/attention/head_scores.h"
#include "kernels/ops/attention/softmax_attention.h"

namespace tvq {

SoftmaxCore::SoftmaxCore(const AttentionConfig& config, Device& device, DType state_dtype,
                         int64_t draft_rows, RelativeTables tables)
    : device_(device),
      parts_({config.n_kv_head, config.d_k, config.d_v, state_dtype}),
      undo_(device, draft_rows),
      queries_(config, std::move(tables)) {}

void SoftmaxCore::View(const PartMemory& memory, std::byte* view) const {
  std::memcpy(view, &memory.pages, sizeof(memory.pages));
}

absl::Status SoftmaxCore::Prefill(const LayerState& state, const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  if (absl::Status s = HeadScores(device_, queries_.PositionScores(n)); !s.ok()) return s;
  SoftmaxPrefillAttentionArgs args;
  args.shape = parts_.shape();
  args.layer_offset = page_first_;
  args.pages = state.memory.pages;
  args.position = state.position;
  args.q = queries_.q_u(n);
  args.position_scores = queries_.position_scores(n);
  args.k = queries_.k(n);
  args.v = rows.v;
  args.out = rows.out;
  return SoftmaxPrefillAttention(device_, args);
}

absl::Status SoftmaxCore::Decode(const RowStates& states, const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  if (absl::Status s = HeadScores(device_, queries_.PositionScores(n)); !s.ok()) return s;
  SoftmaxDecodeAttentionArgs args;
  args.shape = parts_.shape();
  args.layer_offset = page_first_;
  args.sessions = states.As<KeyValuePages>();
  args.positions = states.positions;
  args.q = queries_.q_u(n);
  args.position_scores = queries_.position_scores(n);
  args.k = queries_.k(n);
  args.v = rows.v;
  args.out = rows.out;
  return SoftmaxDecodeAttention(device_, args);
}

}  // namespace tvq
