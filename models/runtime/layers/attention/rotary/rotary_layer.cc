#include "models/runtime/layers/attention/rotary/rotary_layer.h"

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/ops/attention/softmax_attention.h"
#include "kernels/ops/norm_rows.h"

namespace tvq {

RotaryLayer::RotaryLayer(std::string prefix, const RotaryAttentionConfig& config,
                         const AnglesLayer& angles, DType state_dtype, int64_t draft_rows,
                         Device& device)
    : Layer(std::move(prefix)),
      config_(config),
      angles_(angles),
      device_(device),
      parts_({config.kv_heads, config.head, config.head, state_dtype}),
      undo_(device, draft_rows) {}

void RotaryLayer::Load(WeightLoader& loader) {
  const int64_t width = config_.width, keys = config_.kv_heads * config_.head,
                queries = config_.heads * config_.head;
  const std::string attention = prefix() + "self_attn.";
  gain_ = loader.Upload(loader.Read(prefix() + "input_layernorm.weight", {width}));
  const MatrixValues q = loader.ReadMatrix(attention + "q_proj.weight", queries, width);
  const MatrixValues k = loader.ReadMatrix(attention + "k_proj.weight", keys, width);
  const MatrixValues v = loader.ReadMatrix(attention + "v_proj.weight", keys, width);
  qkv_ = loader.Pack({&q, &k, &v});
  if (config_.qkv_biases) {
    std::vector<float> biases = loader.Read(attention + "q_proj.bias", {queries});
    for (const char* name : {"k_proj.bias", "v_proj.bias"}) {
      const std::vector<float> more = loader.Read(attention + name, {keys});
      biases.insert(biases.end(), more.begin(), more.end());
    }
    qkv_bias_ = loader.Upload(biases);
  }
  if (config_.head_norms) {
    q_gain_ = loader.Upload(loader.Read(attention + "q_norm.weight", {config_.head}));
    k_gain_ = loader.Upload(loader.Read(attention + "k_norm.weight", {config_.head}));
  }
  const MatrixValues o = loader.ReadMatrix(attention + "o_proj.weight", width, queries);
  o_ = loader.Pack({&o});
  if (config_.output_bias) {
    o_bias_ = loader.Upload(loader.Read(attention + "o_proj.bias", {width}));
  }
}

void RotaryLayer::Reserve(int64_t rows, WorkingMemory& memory) {
  memory.Share(&normed_, rows * config_.width);
  memory.Share(&projected_, rows * projected_width());
  memory.Share(&q_, q(rows).size());
  memory.Share(&k_, k(rows).size());
  memory.Share(&v_, v(rows).size());
  memory.Share(&out_, out(rows).size());
}

void RotaryLayer::View(const PartMemory& memory, std::byte* view) const {
  std::memcpy(view, &memory.pages, sizeof(memory.pages));
}

absl::Status RotaryLayer::Project(const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  const Matrix<float> normed{normed_, {n, config_.width}};
  const Matrix<float> projected{projected_, {n, projected_width()}};
  absl::Status s = NormRows(device_, {.norm = Norm::kRms,
                                      .x = rows.x,
                                      .gain = VectorOf(gain_, config_.width),
                                      .out = normed,
                                      .epsilon = config_.epsilon});
  if (!s.ok()) return s;
  LinearArgs linear;
  linear.x = normed;
  linear.weight = &qkv_;
  if (config_.qkv_biases) linear.bias = VectorOf(qkv_bias_, projected_width());
  linear.y = projected;
  linear.chunk_rows = rows.chunk_rows;
  if (s = Linear(device_, linear); !s.ok()) return s;
  RotaryHeadsArgs heads;
  heads.projected = projected;
  if (config_.head_norms) {
    heads.q_gain = VectorOf(q_gain_, config_.head);
    heads.k_gain = VectorOf(k_gain_, config_.head);
  }
  heads.epsilon = config_.epsilon;
  heads.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head)));
  heads.angles = angles_.angles(n);
  heads.q = q(n);
  heads.k = k(n);
  heads.v = v(n);
  return RotaryHeads(device_, heads);
}

absl::Status RotaryLayer::Prefill(const LayerState& state, const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  if (absl::Status s = Project(rows); !s.ok()) return s;
  SoftmaxPrefillAttentionArgs args;
  args.shape = parts_.shape();
  args.layer_offset = page_first_;
  args.pages = state.memory.pages;
  args.position = state.position;
  args.q = q(n);
  args.k = k(n);
  args.v = v(n);
  args.out = out(n);
  const absl::Status s = SoftmaxPrefillAttention(device_, args);
  return s.ok() ? Output(rows) : s;
}

absl::Status RotaryLayer::Decode(const RowStates& states, const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  if (absl::Status s = Project(rows); !s.ok()) return s;
  SoftmaxDecodeAttentionArgs args;
  args.shape = parts_.shape();
  args.layer_offset = page_first_;
  args.sessions = states.As<KeyValuePages>();
  args.positions = states.positions;
  args.q = q(n);
  args.k = k(n);
  args.v = v(n);
  args.out = out(n);
  const absl::Status s = SoftmaxDecodeAttention(device_, args);
  return s.ok() ? Output(rows) : s;
}

absl::Status RotaryLayer::Output(const LayerRows& rows) {
  const int64_t n = rows.x.dim(0);
  LinearArgs args;
  args.x = {out_, {n, config_.heads * config_.head}};
  args.weight = &o_;
  if (config_.output_bias) args.bias = VectorOf(o_bias_, config_.width);
  args.accumulate = true;
  args.y = rows.x;
  args.chunk_rows = rows.chunk_rows;
  return Linear(device_, args);
}

}  // namespace tvq
