#include "models/runtime/layers/attention/rotary/rotary_layer.h"

#include <cstring>
#include <utility>
#include <vector>

#include "kernels/ops/attention/softmax_attention.h"
#include "kernels/ops/norm_rows.h"
#include "models/runtime/layers/attention/rotary/rotary_weights.h"

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
  const RotaryWeights read = ReadRotaryWeights(config_, prefix(), loader);
  gain_ = loader.Upload(read.gain);
  PackProjections(read, loader);
  if (config_.head_norms) {
    q_gain_ = loader.Upload(read.q_gain);
    k_gain_ = loader.Upload(read.k_gain);
  }
  o_ = loader.Pack({&read.o});
  if (config_.output_bias) o_bias_ = loader.Upload(read.o_bias);
}

void RotaryLayer::PackProjections(const RotaryWeights& read, WeightLoader& loader) {
  if (!loader.status().ok()) return;
  std::vector<std::vector<float>> values;
  std::vector<HostMatrix> qkv, gates;
  std::vector<float> biases, gate_biases;
  if (config_.output_gate) {
    const int64_t head = config_.head;
    for (int64_t first = 0; first < 2 * config_.heads * head; first += 2 * head) {
      qkv.push_back(CopyRows(read.q, first, head, values));
      gates.push_back(CopyRows(read.q, first + head, head, values));
      if (!config_.qkv_biases) continue;
      const auto of_head = read.q_bias.begin() + first;
      biases.insert(biases.end(), of_head, of_head + head);
      gate_biases.insert(gate_biases.end(), of_head + head, of_head + 2 * head);
    }
    gate_ = loader.Pack(gates, read.q.dtype);
  } else {
    qkv.push_back(read.q.View());
    biases = read.q_bias;
  }
  qkv.push_back(read.k.View());
  qkv.push_back(read.v.View());
  qkv_ = loader.Pack(qkv, read.q.dtype);
  if (!config_.qkv_biases) return;
  biases.insert(biases.end(), read.k_bias.begin(), read.k_bias.end());
  biases.insert(biases.end(), read.v_bias.begin(), read.v_bias.end());
  qkv_bias_ = loader.Upload(biases);
  if (config_.output_gate) gate_bias_ = loader.Upload(gate_biases);
}

void RotaryLayer::Reserve(int64_t rows, WorkingMemory& memory) {
  memory.Share(&normed_, rows * config_.width);
  memory.Share(&projected_, rows * projected_width());
  memory.Share(&q_, q(rows).size());
  memory.Share(&k_, k(rows).size());
  memory.Share(&v_, v(rows).size());
  memory.Share(&out_, out(rows).size());
  if (config_.output_gate) memory.Share(&gates_, out(rows).size());
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
  linear.bias = OptionalVector(qkv_bias_, projected_width());
  linear.y = projected;
  linear.chunk_rows = rows.chunk_rows;
  if (s = Linear(device_, linear); !s.ok()) return s;
  if (config_.output_gate) {
    linear.weight = &gate_;
    linear.bias = OptionalVector(gate_bias_, config_.heads * config_.head);
    linear.activation = Activation::kSigmoid;
    linear.y = gates(n);
    if (s = Linear(device_, linear); !s.ok()) return s;
  }
  RotaryHeadsArgs heads;
  heads.projected = projected;
  if (config_.head_norms) {
    heads.q_gain = VectorOf(q_gain_, config_.head);
    heads.k_gain = VectorOf(k_gain_, config_.head);
  }
  heads.epsilon = config_.epsilon;
  heads.scale = config_.scale();
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
  const Matrix<const float> attended{out_, {n, config_.heads * config_.head}};
  const auto bias = config_.output_bias ? VectorOf(o_bias_, config_.width) : Vector<const float>();
  if (config_.output_gate) {
    return GatedOutput(device_, {attended, gates(n), &o_, rows.x, rows.chunk_rows, bias});
  }
  LinearArgs args;
  args.x = attended;
  args.weight = &o_;
  args.bias = bias;
  args.accumulate = true;
  args.y = rows.x;
  args.chunk_rows = rows.chunk_rows;
  return Linear(device_, args);
}

}  // namespace tvq
