#include "models/runtime/layers/attention/ring/ring_layer.h"

#include <utility>

namespace tvq {
namespace {

VqShape ShapeOf(const RingLayer::Parts& parts, DType state_dtype, const StateReads& reads) {
  const RingAttentionConfig& config = parts.projection.config();
  const RingGroup& group = config.groups[parts.group];
  return {.kv_heads = std::ssize(group.heads),
          .codes = config.codes + 1,
          .window = group.ring,
          .value = config.rotary.head,
          .value_dtype = state_dtype,
          .read = reads.int8 ? VqRead::kInt8 : VqRead::kExact,
          .key = config.rotary.head};
}

int64_t HeadsOf(const RingLayer::Parts& parts) {
  const RingAttentionConfig& config = parts.projection.config();
  return std::ssize(config.groups[parts.group].heads) * config.shared();
}

}  // namespace

RingLayer::RingLayer(std::string prefix, Parts parts, DType state_dtype, const StateReads& reads,
                     int64_t draft_rows, Device& device)
    : Layer(std::move(prefix)),
      of_(std::move(parts)),
      device_(device),
      attention_(ShapeOf(of_, state_dtype, reads), HeadsOf(of_), device, reads.skip_mass,
                 draft_rows, of_.row_reads) {}

void RingLayer::Reserve(int64_t rows, WorkingMemory& memory) {
  for (float** array : {&q_, &q_far_, &q_mapped_, &q_sink_, &out_}) {
    memory.Share(array, queries(nullptr, rows).size());
  }
  for (float** array : {&k_, &k_plain_, &v_}) {
    memory.Share(array, keys(nullptr, rows).size());
  }
  memory.Share(&code_scores_, code_scores(rows).size());
  memory.Share(&position_scores_, position_scores(rows).size());
  memory.Share(&codes_, codes(rows).size());
  attention_.Reserve(memory);
}

absl::Status RingLayer::Score(int64_t rows) {
  RotaryHeadsArgs heads;
  of_.projection.Fill(of_.group, rows, heads);
  heads.angles = of_.angles.angles(rows);
  heads.far_angles = of_.far_angles.angles(rows);
  heads.sink_angles = of_.far_angles.sink_angles();
  heads.q = queries(q_, rows);
  heads.q_far = queries(q_far_, rows);
  heads.q_sink = queries(q_sink_, rows);
  heads.k = keys(k_, rows);
  heads.k_plain = keys(k_plain_, rows);
  heads.v = values(v_, rows);
  absl::Status s = RotaryHeads(device_, heads);
  const bool mapped = weights().map.has_value();
  if (s.ok() && mapped) {
    s = HeadScores(device_, {heads.q_far, &*weights().map, queries(q_mapped_, rows)});
  }
  if (!s.ok()) return s;
  VqScoresArgs scores;
  scores.code_scores = {mapped ? queries(q_mapped_, rows) : heads.q_far, &weights().score,
                        code_scores(rows)};
  scores.assign = {heads.k_plain, &weights().assign, codes(rows)};
  s = VqScores(device_, scores);
  return s.ok() ? of_.tap->Show(device_, of_.number, codes(rows)) : s;
}

RingRows RingLayer::Ring(int64_t n) const {
  return {.bias = VectorOf(weights().bias, heads()),
          .q = queries(q_, n),
          .q_sink = queries(q_sink_, n),
          .k = keys(k_, n),
          .k_plain = keys(k_plain_, n),
          .codes = codes(n),
          .code_scores = code_scores(n),
          .position_scores = position_scores(n)};
}

absl::Status RingLayer::Prefill(const LayerState& state, const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  absl::Status s = Score(n);
  if (s.ok()) {
    s = RingPrefillScores(device_, {attention_.shape(), attention_.parts().At(state.memory),
                                    state.position, Ring(n)});
  }
  if (s.ok()) s = attention_.Prefill(state, Scored(n));
  return s.ok() ? of_.projection.Output(of_.group, out(n), rows) : s;
}

absl::Status RingLayer::Decode(const RowStates& states, const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  absl::Status s = Score(n);
  if (s.ok()) {
    s = RingDecodeScores(device_,
                         {attention_.shape(), states.As<VqState>(), states.positions, Ring(n)});
  }
  if (s.ok()) s = attention_.Decode(states, Scored(n));
  return s.ok() ? of_.projection.Output(of_.group, out(n), rows) : s;
}

}  // namespace tvq
