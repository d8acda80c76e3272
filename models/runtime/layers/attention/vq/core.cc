#include "models/runtime/layers/attention/vq/core.h"

#include <vector>

#include "kernels/ops/ops.h"
#include "models/runtime/layers/attention/codebook.h"

namespace tvq {

VqCore::VqCore(const AttentionConfig& config, Device& device, DType state_dtype,
               const StateReads& reads, int64_t draft_rows, const VqTables& tables, int64_t layer)
    : config_(config),
      device_(device),
      layer_(layer),
      tap_(tables.tap),
      attention_({config.n_kv_head, config.n_code, config.window(), config.d_v, state_dtype,
                  reads.int8 ? VqRead::kInt8 : VqRead::kExact},
                 config.n_head, device, reads.skip_mass, draft_rows, tables.row_reads),
      queries_(config, tables.relative),
      turned_codes_(config, tables.turns) {}

void VqCore::Load(const std::string& prefix, WeightLoader& loader) {
  attention_.Load(loader);
  queries_.Load(prefix, loader);
  const std::vector<float> codebook = ReadCodebook(config_, prefix, loader);
  codebook_ = loader.PackKeys(codebook, {config_.n_kv_head, config_.n_code, config_.d_k});
  if (turned()) turned_codes_.Load(codebook, loader);
}

void VqCore::Reserve(int64_t rows, WorkingMemory& memory) {
  queries_.Reserve(rows, memory);
  memory.Share(&code_scores_, code_scores(rows).size());
  memory.Share(&codes_, codes(rows).size());
  attention_.Reserve(memory);
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
  absl::Status s = Score(n);
  if (s.ok() && turned()) {
    s = TurnedPrefillScores(
        device_, {turned_codes_.keys(attention_.shape()), attention_.parts().At(state.memory),
                  state.position, queries_.q_u(n), codes(n), queries_.position_scores(n)});
  }
  return s.ok() ? attention_.Prefill(state, Scored(rows)) : s;
}

absl::Status VqCore::Decode(const RowStates& states, const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  absl::Status s = Score(n);
  if (s.ok() && turned()) {
    s = TurnedDecodeScores(
        device_, {turned_codes_.keys(attention_.shape()), states.As<VqState>(), states.positions,
                  queries_.q_u(n), codes(n), queries_.position_scores(n)});
  }
  return s.ok() ? attention_.Decode(states, Scored(rows)) : s;
}

}  // namespace tvq
