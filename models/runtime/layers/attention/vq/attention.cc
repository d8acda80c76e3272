#include "models/runtime/layers/attention/vq/attention.h"

#include <cstring>
#include <utility>

#include "kernels/ops/ops.h"

namespace tvq {

VqAttention::VqAttention(const VqShape& shape, int64_t heads, Device& device, float skip_mass,
                         int64_t draft_rows, std::shared_ptr<RowReads> row_reads)
    : device_(device),
      parts_(shape),
      skip_mass_(skip_mass),
      draft_rows_(Supports<VqTakeBackArgs>(device) ? draft_rows : 0),
      row_reads_(std::move(row_reads)),
      reporter_(row_reads_ == nullptr ? 0 : row_reads_->AddLayer(heads, shape.kv_heads)) {}

void VqAttention::Load(const WeightLoader& loader) {
  if (loader.dtype() != DType::kFloat32) prefill_factors_ = DType::kBFloat16;
}

void VqAttention::View(const PartMemory& memory, std::byte* view) const {
  const VqState state = parts_.At(memory);
  std::memcpy(view, &state, sizeof(state));
}

void VqAttention::ViewDraft(int64_t draft, std::byte* view) const {
  VqState state;
  std::memcpy(&state, view, sizeof(state));
  state.undo = Undo(draft);
  std::memcpy(view, &state, sizeof(state));
}

absl::Status VqAttention::TakeBack(const PartMemory& memory, int64_t position, int64_t draft) {
  VqState state = parts_.At(memory);
  state.undo = Undo(draft);
  return VqTakeBack(device_, {parts_.shape(), state, position});
}

absl::Status VqAttention::Prefill(const LayerState& state, const VqRows& rows) {
  VqPrefillAttentionArgs args;
  args.shape = parts_.shape();
  args.state = parts_.At(state.memory);
  args.position = state.position;
  args.code_scores = rows.code_scores;
  args.position_scores = rows.position_scores;
  args.codes = rows.codes;
  args.v = rows.v;
  args.out = rows.out;
  args.factors = prefill_factors_;
  return VqPrefillAttention(device_, args);
}

absl::Status VqAttention::Decode(const RowStates& states, const VqRows& rows) {
  VqDecodeAttentionArgs args;
  args.shape = parts_.shape();
  args.states = states.As<VqState>();
  args.positions = states.positions;
  args.code_scores = rows.code_scores;
  args.position_scores = rows.position_scores;
  args.codes = rows.codes;
  args.v = rows.v;
  args.out = rows.out;
  if (row_reads_ != nullptr) {
    const int64_t n = rows.v.dim(0);
    args.skip_mass = skip_mass_;
    args.skipped_mass = row_reads_->skipped_mass(reporter_, n);
    args.row_reads = row_reads_->row_reads(reporter_, n);
  }
  return VqDecodeAttention(device_, args);
}

}  // namespace tvq
