#include "models/runtime/arch/transformer/vq/attention.h"

#include <cstring>

#include "kernels/ops/vq_attention.h"
#include "models/runtime/arch/transformer/codebook.h"
#include "models/runtime/arch/transformer/constant_state.h"
#include "models/runtime/arch/transformer/memory_parts.h"

namespace tvq::transformer {
VqAttention::VqAttention(const TransformerConfig& config, Device& device, DType state_dtype)
    : config_(config),
      device_(device),
      layout_(config, state_dtype),
      position_keys_(std::in_place, config, config.window()) {}

void VqAttention::LoadLayer(const std::string& prefix, WeightLoader& loader) {
  LayerWeights& layer = layers_.emplace_back();
  layer.biases = LoadQueryBiases(config_, prefix, loader);
  layer.positions = position_keys_->Load(prefix, loader);
  layer.codebook = LoadCodebook(config_, prefix, loader);
}

absl::Status VqAttention::Reserve(int64_t rows) {
  position_keys_.reset();
  const TransformerConfig& c = config_;
  MemoryParts parts;
  parts.Add(&q_u_, rows * c.n_head * c.d_k);
  parts.Add(&q_w_, rows * c.n_head * c.d_k);
  parts.Add(&k_, rows * c.n_kv_head * c.d_k);
  parts.Add(&code_scores_, rows * c.n_head * c.n_code);
  parts.Add(&position_scores_, rows * c.n_head * c.window());
  parts.Add(&codes_, rows * c.n_kv_head);
  absl::StatusOr<Buffer> memory = parts.Allocate(device_);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SessionState>> VqAttention::NewState(StateMemory memory) {
  return ConstantState::Create(device_, layout_, memory);
}

VqState VqAttention::StateOf(const SessionState& state, int64_t layer) const {
  return layout_.At(static_cast<const ConstantState&>(state).Layer(layer));
}

void VqAttention::View(const SessionState& state, int64_t layer, std::byte* view) const {
  const VqState of_layer = StateOf(state, layer);
  std::memcpy(view, &of_layer, sizeof(of_layer));
}

void VqAttention::Project(int64_t layer, int64_t rows, QkvgProjectionArgs& args) const {
  const QueryBiases& biases = layers_[static_cast<size_t>(layer)].biases;
  args.u = {biases.u.as<const float>(), {config_.n_head, config_.d_k}};
  args.w = {biases.w.as<const float>(), {config_.n_head, config_.d_k}};
  args.q_u = q_u(rows);
  args.q_w = q_w(rows);
  args.k = k(rows);
}

absl::Status VqAttention::Score(int64_t layer, int64_t rows) {
  const LayerWeights& weights = layers_[static_cast<size_t>(layer)];
  absl::Status s = VqAssign(device_, {k(rows), &weights.codebook, codes(rows)});
  if (s.ok() && tap_) s = ShowCodes(device_, tap_, layer, codes(rows));
  if (s.ok()) s = HeadScores(device_, {q_u(rows), &weights.codebook, code_scores(rows)});
  if (s.ok()) s = HeadScores(device_, {q_w(rows), &weights.positions, position_scores(rows)});
  return s;
}

absl::Status VqAttention::Prefill(int64_t layer, const SessionState& state,
                                  const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  if (absl::Status s = Score(layer, n); !s.ok()) return s;
  VqPrefillAttentionArgs args;
  args.shape = layout_.shape();
  args.state = StateOf(state, layer);
  args.position = state.position();
  args.code_scores = code_scores(n);
  args.position_scores = position_scores(n);
  args.codes = codes(n);
  args.v = rows.v;
  args.out = rows.out;
  return VqPrefillAttention(device_, args);
}

absl::Status VqAttention::Decode(int64_t layer, const RowInputs& inputs,
                                 const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  if (absl::Status s = Score(layer, n); !s.ok()) return s;
  VqDecodeAttentionArgs args;
  args.shape = layout_.shape();
  args.states = inputs.views<VqState>(layer);
  args.positions = inputs.positions();
  args.code_scores = code_scores(n);
  args.position_scores = position_scores(n);
  args.codes = codes(n);
  args.v = rows.v;
  args.out = rows.out;
  return VqDecodeAttention(device_, args);
}

}  // namespace tvq::transformer
