#include "models/runtime/arch/transformer/vq/attention.h"

#include <cstring>

#include "kernels/device/backend.h"
#include "kernels/ops/attention/vq_attention.h"
#include "models/runtime/arch/transformer/codebook.h"

namespace tvq::transformer {

VqAttention::VqAttention(const TransformerConfig& config, Device& device, DType state_dtype,
                         const StateReads& reads, int64_t draft_rows)
    : config_(config),
      device_(device),
      reads_(reads),
      parts_({config.n_kv_head, config.n_code, config.window(), config.d_v, state_dtype,
              reads.int8 ? VqRead::kInt8 : VqRead::kExact}),
      draft_rows_(device.functions().vq_take_back == nullptr ? 0 : draft_rows),
      queries_(config),
      turned_codes_(config) {}

void VqAttention::LoadLayer(const std::string& prefix, WeightLoader& loader) {
  if (loader.dtype() != DType::kFloat32) prefill_factors_ = DType::kBFloat16;
  queries_.LoadLayer(prefix, loader);
  const std::vector<float> codebook = ReadCodebook(config_, prefix, loader);
  codebooks_.push_back(loader.PackKeys(codebook, {config_.n_kv_head, config_.n_code, config_.d_k}));
  if (turned()) turned_codes_.LoadLayer(codebook, loader);
}

absl::Status VqAttention::Reserve(int64_t rows) {
  MemoryParts parts;
  queries_.AddMemory(rows, parts);
  parts.Add(&code_scores_, code_scores(rows).size());
  parts.Add(&codes_, codes(rows).size());
  if (reads_.skip_mass > 0) {
    parts.Add(&skipped_mass_, config_.n_layer * rows * config_.n_head);
    parts.Add(&row_reads_, config_.n_layer * rows * config_.n_kv_head * 2);
  }
  parts.Add(&undo_, config_.n_layer * draft_rows_ * undo_words());
  absl::StatusOr<Buffer> memory = parts.Allocate(device_);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  return absl::OkStatus();
}

void VqAttention::View(const PartMemory& memory, std::byte* view) const {
  const VqState of_layer = parts_.At(memory);
  std::memcpy(view, &of_layer, sizeof(of_layer));
}

void* VqAttention::Undo(int64_t layer, int64_t draft) const {
  return undo_ + (layer * draft_rows_ + draft) * undo_words();
}

void VqAttention::ViewDraft(int64_t layer, int64_t draft, std::byte* view) const {
  VqState of_layer;
  std::memcpy(&of_layer, view, sizeof(of_layer));
  of_layer.undo = Undo(layer, draft);
  std::memcpy(view, &of_layer, sizeof(of_layer));
}

absl::Status VqAttention::TakeBack(const SessionState& state, int64_t position, int64_t draft) {
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
    VqState of_layer = StateOf(state, layer);
    of_layer.undo = Undo(layer, draft);
    absl::Status s = VqTakeBack(device_, {parts_.shape(), of_layer, position});
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status VqAttention::Score(int64_t layer, int64_t rows) {
  const HeadKeys& codebook = codebooks_[static_cast<size_t>(layer)];
  const HeadKeys& far = turned() ? turned_codes_.far(layer) : codebook;
  VqScoresArgs args;
  args.code_scores = {queries_.q_u(rows), &far, code_scores(rows)};
  if (!turned()) args.position_scores = queries_.PositionScores(layer, rows);
  args.assign = {queries_.k(rows), &codebook, codes(rows)};
  absl::Status s = VqScores(device_, args);
  if (s.ok() && tap_) s = ShowCodes(device_, tap_, layer, codes(rows));
  return s;
}

absl::Status VqAttention::Prefill(int64_t layer, const SessionState& state,
                                  const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  absl::Status scored = Score(layer, n);
  if (scored.ok() && turned()) {
    scored = TurnedPrefillScores(
        device_, {turned_codes_.keys(layer, parts_.shape()), StateOf(state, layer),
                  state.position(), queries_.q_u(n), codes(n), queries_.position_scores(n)});
  }
  if (!scored.ok()) return scored;
  VqPrefillAttentionArgs args;
  args.shape = parts_.shape();
  args.state = StateOf(state, layer);
  args.position = state.position();
  args.code_scores = code_scores(n);
  args.position_scores = queries_.position_scores(n);
  args.codes = codes(n);
  args.v = rows.v;
  args.out = rows.out;
  args.factors = prefill_factors_;
  return VqPrefillAttention(device_, args);
}

absl::Status VqAttention::Decode(int64_t layer, const RowInputs& inputs,
                                 const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  absl::Status scored = Score(layer, n);
  if (scored.ok() && turned()) {
    scored = TurnedDecodeScores(
        device_, {turned_codes_.keys(layer, parts_.shape()), inputs.views<VqState>(layer),
                  inputs.positions(), queries_.q_u(n), codes(n), queries_.position_scores(n)});
  }
  if (!scored.ok()) return scored;
  VqDecodeAttentionArgs args;
  args.shape = parts_.shape();
  args.states = inputs.views<VqState>(layer);
  args.positions = inputs.positions();
  args.code_scores = code_scores(n);
  args.position_scores = queries_.position_scores(n);
  args.codes = codes(n);
  args.v = rows.v;
  args.out = rows.out;
  if (reads_.skip_mass > 0) {
    args.skip_mass = reads_.skip_mass;
    args.skipped_mass = skipped_mass(layer, n);
    args.row_reads = row_reads(layer, n);
  }
  return VqDecodeAttention(device_, args);
}

absl::Status VqAttention::BeginStep(int64_t rows) {
  if (reads_.skip_mass == 0) return absl::OkStatus();
  absl::Status counted = CountReads();
  uncounted_rows_ = rows;
  return counted;
}

StateReadTotals VqAttention::read_totals() const {
  // Of a device that has failed nothing more is learnt, and its next step says so.
  CountReads().IgnoreError();
  return read_totals_;
}

absl::Status VqAttention::CountReads() const {
  const int64_t queries = std::exchange(uncounted_rows_, 0) * config_.n_layer;
  if (queries == 0) return absl::OkStatus();
  std::vector<int32_t> row_reads(static_cast<size_t>(queries * config_.n_kv_head * 2));
  std::vector<float> skipped_mass(static_cast<size_t>(queries * config_.n_head));
  absl::Status s = device_.Receive(row_reads.data(), row_reads_, row_reads.size() * 4);
  if (s.ok()) s = device_.Receive(skipped_mass.data(), skipped_mass_, skipped_mass.size() * 4);
  if (!s.ok()) return s;
  for (size_t i = 0; i < row_reads.size(); i += 2) {
    read_totals_.rows += row_reads[i];
    read_totals_.rows_read += row_reads[i + 1];
    // Somebody's rows are never none: their own position is among them.
    if (row_reads[i] > 0) read_totals_.queries += config_.n_head / config_.n_kv_head;
  }
  for (const float mass : skipped_mass) read_totals_.skipped_mass += mass;
  return absl::OkStatus();
}

}  // namespace tvq::transformer
