#include "models/runtime/arch/transformer/linear/attention.h"

#include <cstring>
#include <utility>

#include "kernels/ops/linear_attention.h"
#include "models/runtime/arch/transformer/constant_state.h"
#include "models/runtime/arch/transformer/memory_parts.h"

namespace tvq::transformer {

LinearAttention::LinearAttention(const LinearConfig& config, Device& device, DType)
    : config_(config), device_(device), layout_(config) {}

absl::Status LinearAttention::Reserve(int64_t rows) {
  MemoryParts parts;
  parts.Add(&q_, rows * config_.n_head * config_.d_k);
  parts.Add(&k_, rows * config_.n_kv_head * config_.d_k);
  absl::StatusOr<Buffer> memory = parts.Allocate(device_);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SessionState>> LinearAttention::NewState(StateMemory memory) {
  return ConstantState::Create(device_, layout_, memory);
}

LinearState LinearAttention::StateOf(const SessionState& state, int64_t layer) const {
  return layout_.At(static_cast<const ConstantState&>(state).Layer(layer));
}

void LinearAttention::View(const SessionState& state, int64_t layer, std::byte* view) const {
  const LinearState of_layer = StateOf(state, layer);
  std::memcpy(view, &of_layer, sizeof(of_layer));
}

void LinearAttention::Project(int64_t, int64_t rows, QkvgProjectionArgs& args) const {
  args.plain_heads = true;
  args.q_u = q(rows);
  args.k = k(rows);
}

absl::Status LinearAttention::Prefill(int64_t layer, const SessionState& state,
                                      const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  LinearPrefillAttentionArgs args;
  args.shape = layout_.shape();
  args.state = StateOf(state, layer);
  args.position = state.position();
  args.q = q(n);
  args.k = k(n);
  args.v = rows.v;
  args.out = rows.out;
  return LinearPrefillAttention(device_, args);
}

absl::Status LinearAttention::Decode(int64_t layer, const RowInputs& inputs,
                                     const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  LinearDecodeAttentionArgs args;
  args.shape = layout_.shape();
  args.states = inputs.views<LinearState>(layer);
  args.q = q(n);
  args.k = k(n);
  args.v = rows.v;
  args.out = rows.out;
  return LinearDecodeAttention(device_, args);
}

}  // namespace tvq::transformer
