#include "models/runtime/arch/transformer/encoder/attention.h"

#include "kernels/ops/attention/head_scores.h"
#include "models/runtime/arch/transformer/codebook.h"
#include "models/runtime/arch/transformer/memory_parts.h"

namespace tvq::transformer {
namespace {

absl::Status PredictsNothing() {
  return absl::UnimplementedError("an encoder predicts no next token");
}

}  // namespace

EncoderAttention::EncoderAttention(const TransformerConfig& config, Device& device, DType)
    : config_(config),
      device_(device),
      shape_{config.n_kv_head, config.n_code, config.d_v},
      sum_bytes_(Aligned(config.n_kv_head * config.n_code * config.d_v * 4)),
      count_bytes_(Aligned(config.n_kv_head * config.n_code * 8)) {}

void EncoderAttention::LoadLayer(const std::string& prefix, WeightLoader& loader) {
  codebooks_.push_back(LoadCodebook(config_, prefix, loader));
}

absl::Status EncoderAttention::Reserve(int64_t rows) {
  MemoryParts parts;
  parts.Add(&q_, q(rows).size());
  parts.Add(&k_, k(rows).size());
  parts.Add(&code_scores_, code_scores(rows).size());
  parts.Add(&codes_, codes(rows).size());
  absl::StatusOr<Buffer> memory = parts.Allocate(device_);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  return absl::OkStatus();
}

CodeSums EncoderAttention::SumsOf(const EncodingState& state) const {
  std::byte* const first = state.collected();
  return {reinterpret_cast<float*>(first), reinterpret_cast<float*>(first + sum_bytes_),
          reinterpret_cast<int64_t*>(first + 2 * sum_bytes_)};
}

void EncoderAttention::Project(int64_t, int64_t rows, QkvgProjectionArgs& args) const {
  args.q_u = q(rows);
  args.k = k(rows);
}

absl::Status EncoderAttention::Prefill(int64_t, const SessionState&, const AttentionRows&) {
  return PredictsNothing();
}

absl::Status EncoderAttention::Decode(int64_t, const RowInputs&, const AttentionRows&) {
  return PredictsNothing();
}

absl::Status EncoderAttention::Collect(int64_t layer, const EncodingState& state,
                                       const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  const HeadKeys& codebook = codebooks_[static_cast<size_t>(layer)];
  absl::Status s = VqAssign(device_, {k(n), &codebook, codes(n)});
  if (s.ok() && tap_) s = ShowCodes(device_, tap_, layer, codes(n));
  return s.ok() ? VqCollect(device_, {shape_, SumsOf(state), codes(n), rows.v}) : s;
}

absl::Status EncoderAttention::Attend(int64_t layer, const EncodingState& state,
                                      const AttentionRows& rows) {
  const int64_t n = rows.v.dim(0);
  const HeadKeys& codebook = codebooks_[static_cast<size_t>(layer)];
  absl::Status s = HeadScores(device_, {q(n), &codebook, code_scores(n)});
  return s.ok() ? VqEncoderAttention(device_, {shape_, SumsOf(state), code_scores(n), rows.out})
                : s;
}

}  // namespace tvq::transformer
