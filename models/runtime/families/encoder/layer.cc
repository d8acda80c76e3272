#include "models/runtime/families/encoder/layer.h"

#include <utility>

#include "kernels/ops/attention/head_scores.h"
#include "models/runtime/families/transformer/blocks.h"
#include "models/runtime/layers/attention/codebook.h"

namespace tvq {
namespace {

int64_t SumBytes(const TransformerConfig& config) {
  return Aligned(config.n_kv_head * config.n_code * config.d_v * 4);
}

}  // namespace

EncoderLayer::EncoderLayer(const TransformerConfig& config, Device& device,
                           std::shared_ptr<KeyTap> tap, int64_t layer)
    : config_(config),
      device_(device),
      tap_(std::move(tap)),
      layer_(layer),
      prefix_(LayerPrefix(layer)),
      shape_{config.n_kv_head, config.n_code, config.d_v},
      sum_bytes_(SumBytes(config)),
      projection_(config, device) {
  if (config.block == Block::kStandard) {
    mlp_ = std::make_unique<MlpLayer>(prefix_, config.d_model, config.d_ff, device);
  }
}

int64_t EncoderLayer::CollectedBytes(const TransformerConfig& config) {
  return 2 * SumBytes(config) + Aligned(config.n_kv_head * config.n_code * 8);
}

void EncoderLayer::Load(WeightLoader& loader) {
  projection_.Load(prefix_, loader);
  codebook_ = LoadCodebook(config_, prefix_, loader);
  if (mlp_ != nullptr) mlp_->Load(loader);
}

void EncoderLayer::Reserve(int64_t rows, WorkingMemory& memory) {
  projection_.Reserve(rows, memory);
  memory.Share(&q_, q(rows).size());
  memory.Share(&k_, k(rows).size());
  memory.Share(&code_scores_, code_scores(rows).size());
  memory.Share(&codes_, codes(rows).size());
  if (mlp_ == nullptr) return;
  memory.NextLayer();
  mlp_->Reserve(rows, memory);
}

CodeSums EncoderLayer::SumsOf(const EncodingState& state) const {
  std::byte* const first = state.collected();
  return {reinterpret_cast<float*>(first), reinterpret_cast<float*>(first + sum_bytes_),
          reinterpret_cast<int64_t*>(first + 2 * sum_bytes_)};
}

absl::Status EncoderLayer::Project(const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  QkvgProjectionArgs args;
  args.q_u = q(n);
  args.k = k(n);
  return projection_.Project(rows, args);
}

absl::Status EncoderLayer::Collect(const EncodingState& state, const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  absl::Status s = Project(rows);
  if (s.ok()) s = VqAssign(device_, {k(n), &codebook_, codes(n)});
  if (s.ok()) s = tap_->Show(device_, layer_, codes(n));
  return s.ok() ? VqCollect(device_, {shape_, SumsOf(state), codes(n), projection_.v(n)}) : s;
}

absl::Status EncoderLayer::Attend(const EncodingState& state, const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  absl::Status s = Project(rows);
  if (s.ok()) s = HeadScores(device_, {q(n), &codebook_, code_scores(n)});
  if (s.ok()) {
    s = VqEncoderAttention(device_, {shape_, SumsOf(state), code_scores(n), projection_.out(n)});
  }
  if (s.ok()) s = projection_.Output(rows);
  return s.ok() && mlp_ != nullptr ? mlp_->Compute(rows) : s;
}

}  // namespace tvq
