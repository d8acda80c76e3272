#include "models/runtime/layers/attention/vq/core.h"

#include <cstring>
#include <vector>

#include "kernels/ops/attention/vq_attention.h"
#include "kernels/ops/ops.h"
#include "models/runtime/layers/attention/codebook.h"

namespace tvq {

VqCore::VqCore(const AttentionConfig& config, Device& device, DType state_dtype,
               const StateReads& reads, int64_t draft_rows, const VqTables& tables, int64_t layer)
    : config_(config),
      device_(device),
      layer_(layer),
      skip_mass_(reads.skip_mass),
      parts_({config.n_kv_head, config.n_code, config.window(), config.d_v, state_dtype,
              reads.int8 ? VqRead::kInt8 : VqRead::kExact}),
      draft_rows_(Supports<VqTakeBackArgs>(device) ? draft_rows : 0),
      tap_(tables.tap),
      row_reads_(tables.row_reads),
      reporter_(row_reads_ == nullptr ? 0 : row_reads_->AddLayer()),
      queries_(config, tables.relative),
      turned_codes_(config, tables.turns) {}

void VqCore::Load(const std::string& prefix, WeightLoader& loader) {
  if (loader.dtype() != DType::kFloat32) prefill_factors_ = DType::kBFloat16;
  queries_.Load(prefix, loader);
  const std::vector<float> codebook = ReadCodebook(config_, prefix, loader);
  codebook_ = loader.PackKeys(codebook, {config_.n_kv_head, config_.n_code, config_.d_k});
  if (turned()) turned_codes_.Load(codebook, loader);
}

void VqCore::Reserve(int64_t rows, WorkingMemory& memory) {
  queries_.Reserve(rows, memory);
  memory.Share(&code_scores_, code_scores(rows).size());
  memory.Share(&codes_, codes(rows).size());
  memory.Keep(&undo_, draft_rows_ * undo_words());
}

void VqCore::View(const PartMemory& memory, std::byte* view) const {
  const VqState state = parts_.At(memory);
  std::memcpy(view, &state, sizeof(state));
}

void VqCore::ViewDraft(int64_t draft, std::byte* view) const {
  VqState state;
  std::memcpy(&state, view, sizeof(state));
  state.undo = Undo(draft);
  std::memcpy(view, &state, sizeof(state));
}

absl::Status VqCore::TakeBack(const PartMemory& memory, int64_t position, int64_t draft) {
  VqState state = parts_.At(memory);
  state.undo = Undo(draft);
  return VqTakeBack(device_, {parts_.shape(), state, position});
}

absl::Status VqCore::Score(int64_t rows) {
  VqScoresArgs args;
  args.code_scores = {queries_.q_u(rows), turned() ? &turned_codes_.far() : &codebook_,
                      code_scores(rows)};
  if (!turned()) args.position_scores = queries_.PositionScores(rows);
  args.assign = {queries_.k(rows), &codebook_, codes(rows)};
  absl::Status s = VqScores(device_, args);
  return s.ok() ? tap_->Show(device_, layer_, codes(rows)) : s;
}

absl::Status VqCore::Prefill(const LayerState& state, const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  const VqState at = parts_.At(state.memory);
  absl::Status scored = Score(n);
  if (scored.ok() && turned()) {
    scored = TurnedPrefillScores(device_, {turned_codes_.keys(parts_.shape()), at, state.position,
                                           queries_.q_u(n), codes(n), queries_.position_scores(n)});
  }
  if (!scored.ok()) return scored;
  VqPrefillAttentionArgs args;
  args.shape = parts_.shape();
  args.state = at;
  args.position = state.position;
  args.code_scores = code_scores(n);
  args.position_scores = queries_.position_scores(n);
  args.codes = codes(n);
  args.v = rows.v;
  args.out = rows.out;
  args.factors = prefill_factors_;
  return VqPrefillAttention(device_, args);
}

absl::Status VqCore::Decode(const RowStates& states, const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  absl::Status scored = Score(n);
  if (scored.ok() && turned()) {
    scored = TurnedDecodeScores(
        device_, {turned_codes_.keys(parts_.shape()), states.As<VqState>(), states.positions,
                  queries_.q_u(n), codes(n), queries_.position_scores(n)});
  }
  if (!scored.ok()) return scored;
  VqDecodeAttentionArgs args;
  args.shape = parts_.shape();
  args.states = states.As<VqState>();
  args.positions = states.positions;
  args.code_scores = code_scores(n);
  args.position_scores = queries_.position_scores(n);
  args.codes = codes(n);
  args.v = rows.v;
  args.out = rows.out;
  if (row_reads_ != nullptr) {
    args.skip_mass = skip_mass_;
    args.skipped_mass = row_reads_->skipped_mass(reporter_, n);
    args.row_reads = row_reads_->row_reads(reporter_, n);
  }
  return VqDecodeAttention(device_, args);
}

}  // namespace tvq
