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
      parts_({config.n_kv_head, config.d_k, config.d_v, state_dtype}),
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

void SoftmaxAttention::Place(const StateLayout& layout) {
  for (const StateLayout::Layer& layer : layout.layers()) {
    layer_offsets_.push_back(layer.page_first);
  }
}

void SoftmaxAttention::View(const PartMemory& memory, std::byte* view) const {
  std::memcpy(view, &memory.pages, sizeof(memory.pages));
}

absl::Status SoftmaxAttention::Prefill(int64_t layer, const SessionState& state,
                                       const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  if (absl::Status s = HeadScores(device_, queries_.PositionScores(layer, n)); !s.ok()) return s;
  SoftmaxPrefillAttentionArgs args;
  args.shape = parts_.shape();
  args.layer_offset = layer_offsets_[static_cast<size_t>(layer)];
  args.pages = state.Parts(layer).pages;
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
  args.shape = parts_.shape();
  args.layer_offset = layer_offsets_[static_cast<size_t>(layer)];
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
