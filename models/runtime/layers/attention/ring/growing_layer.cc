#include "models/runtime/layers/attention/ring/growing_layer.h"

#include <cstring>
#include <utility>

namespace tvq {
namespace {

KeyValueShape ShapeOf(const GrowingLayer::Parts& parts, DType state_dtype) {
  const RingAttentionConfig& config = parts.projection.config();
  return {.kv_heads = std::ssize(config.groups[parts.group].heads),
          .key = 2 * config.rotary.head,
          .value = config.rotary.head,
          .dtype = state_dtype};
}

}  // namespace

GrowingLayer::GrowingLayer(std::string prefix, const Parts& parts, DType state_dtype,
                           int64_t draft_rows, Device& device)
    : Layer(std::move(prefix)),
      of_(parts),
      device_(device),
      parts_(ShapeOf(parts, state_dtype)),
      undo_(device, draft_rows) {}

void GrowingLayer::Reserve(int64_t rows, WorkingMemory& memory) {
  for (float** array : {&q_, &q_far_, &out_}) memory.Share(array, queries(nullptr, rows).size());
  for (float** array : {&k_, &k_plain_, &v_}) memory.Share(array, keys(nullptr, rows).size());
  memory.Share(&page_q_, page_q(rows).size());
  memory.Share(&page_k_, page_k(rows).size());
  memory.Share(&position_scores_, position_scores(rows).size());
}

void GrowingLayer::View(const PartMemory& memory, std::byte* view) const {
  std::memcpy(view, &memory.pages, sizeof(memory.pages));
}

absl::Status GrowingLayer::MakeKeys(KeptKeysArgs& args, int64_t rows) {
  RotaryHeadsArgs heads;
  of_.projection.Fill(of_.group, rows, heads);
  heads.angles = of_.angles.angles(rows);
  heads.far_angles = of_.far_angles.angles(rows);
  heads.q = queries(q_, rows);
  heads.q_far = queries(q_far_, rows);
  heads.k = keys(k_, rows);
  heads.k_plain = keys(k_plain_, rows);
  heads.v = keys(v_, rows);
  if (absl::Status s = RotaryHeads(device_, heads); !s.ok()) return s;
  args.shape = parts_.shape();
  args.layer_offset = page_first_;
  args.longest_trained = of_.trained_context;
  args.q = heads.q;
  args.q_far = heads.q_far;
  args.k = heads.k;
  args.k_plain = heads.k_plain;
  args.page_q = page_q(rows);
  args.page_k = page_k(rows);
  args.position_scores = position_scores(rows);
  return KeptKeys(device_, args);
}

absl::Status GrowingLayer::Prefill(const LayerState& state, const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  KeptKeysArgs made;
  made.pages = state.memory.pages;
  made.positions = state.positions;
  if (absl::Status s = MakeKeys(made, n); !s.ok()) return s;
  SoftmaxPrefillAttentionArgs args;
  args.shape = parts_.shape();
  args.layer_offset = page_first_;
  args.pages = state.memory.pages;
  args.position = state.position;
  args.q = page_q(n);
  args.position_scores = position_scores(n);
  args.k = page_k(n);
  args.v = keys(v_, n);
  args.out = queries(out_, n);
  const absl::Status s = SoftmaxPrefillAttention(device_, args);
  return s.ok() ? of_.projection.Output(of_.group, args.out, rows) : s;
}

absl::Status GrowingLayer::Decode(const RowStates& states, const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  KeptKeysArgs made;
  made.sessions = states.As<KeyValuePages>();
  made.positions = states.positions;
  if (absl::Status s = MakeKeys(made, n); !s.ok()) return s;
  SoftmaxDecodeAttentionArgs args;
  args.shape = parts_.shape();
  args.layer_offset = page_first_;
  args.sessions = states.As<KeyValuePages>();
  args.positions = states.positions;
  args.q = page_q(n);
  args.position_scores = position_scores(n);
  args.k = page_k(n);
  args.v = keys(v_, n);
  args.out = queries(out_, n);
  const absl::Status s = SoftmaxDecodeAttention(device_, args);
  return s.ok() ? of_.projection.Output(of_.group, args.out, rows) : s;
}

}  // namespace tvq
