#include "models/runtime/arch/transformer/softmax/attention.h"

#include <cstring>
#include <utility>

#include "kernels/ops/head_scores.h"
#include "kernels/ops/softmax_attention.h"
#include "models/runtime/arch/transformer/memory_parts.h"

namespace tvq::transformer {

SoftmaxAttention::SoftmaxAttention(const TransformerConfig& config, Device& device,
                                   DType state_dtype)
    : config_(config),
      device_(device),
      layout_{.shape = {config.n_kv_head, config.d_k, config.d_v, state_dtype},
              .layers = config.n_layer,
              .max_position = config.common.max_position},
      position_keys_(std::in_place, config, config.window()) {}

void SoftmaxAttention::LoadLayer(const std::string& prefix, WeightLoader& loader) {
  LayerWeights& layer = layers_.emplace_back();
  layer.biases = LoadQueryBiases(config_, prefix, loader);
  layer.positions = position_keys_->Load(prefix, loader);
}

absl::Status SoftmaxAttention::Reserve(int64_t rows) {
  position_keys_.reset();
  const TransformerConfig& c = config_;
  MemoryParts parts;
  parts.Add(&q_u_, rows * c.n_head * c.d_k);
  parts.Add(&q_w_, rows * c.n_head * c.d_k);
  parts.Add(&k_, rows * c.n_kv_head * c.d_k);
  parts.Add(&position_scores_, rows * c.n_head * c.window());
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

void SoftmaxAttention::Project(int64_t layer, int64_t rows, QkvgProjectionArgs& args) const {
  const QueryBiases& biases = layers_[static_cast<size_t>(layer)].biases;
  args.u = {biases.u.as<const float>(), {config_.n_head, config_.d_k}};
  args.w = {biases.w.as<const float>(), {config_.n_head, config_.d_k}};
  args.q_u = q_u(rows);
  args.q_w = q_w(rows);
  args.k = k(rows);
}

absl::Status SoftmaxAttention::ScorePositions(int64_t layer, int64_t rows) {
  const HeadKeys& positions = layers_[static_cast<size_t>(layer)].positions;
  return HeadScores(device_, {q_w(rows), &positions, position_scores(rows)});
}

absl::Status SoftmaxAttention::Prefill(int64_t layer, const SessionState& state,
                                       const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  if (absl::Status s = ScorePositions(layer, n); !s.ok()) return s;
  SoftmaxPrefillAttentionArgs args;
  args.shape = layout_.shape;
  args.layer_offset = layout_.LayerOffset(layer);
  args.pages = static_cast<const PagedState&>(state).pages();
  args.position = state.position();
  args.q = q_u(n);
  args.position_scores = position_scores(n);
  args.k = k(n);
  args.v = rows.v;
  args.out = rows.out;
  return SoftmaxPrefillAttention(device_, args);
}

absl::Status SoftmaxAttention::Decode(int64_t layer, const RowInputs& inputs,
                                      const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  if (absl::Status s = ScorePositions(layer, n); !s.ok()) return s;
  SoftmaxDecodeAttentionArgs args;
  args.shape = layout_.shape;
  args.layer_offset = layout_.LayerOffset(layer);
  args.sessions = inputs.views<KeyValuePages>(layer);
  args.positions = inputs.positions();
  args.q = q_u(n);
  args.position_scores = position_scores(n);
  args.k = k(n);
  args.v = rows.v;
  args.out = rows.out;
  return SoftmaxDecodeAttention(device_, args);
}

}  // namespace tvq::transformer
