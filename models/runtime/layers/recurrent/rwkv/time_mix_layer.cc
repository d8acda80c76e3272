#include "models/runtime/layers/recurrent/rwkv/time_mix_layer.h"

#include <utility>
#include <vector>

#include "kernels/ops/recurrent/recent_inputs.h"
#include "kernels/ops/recurrent/rwkv_time_mix.h"

namespace tvq {

TimeMixLayer::TimeMixLayer(std::string prefix, const RwkvConfig& config, const TimeMixLayer* first,
                           int64_t draft_rows, Device& device)
    : RecurrentLayer(std::move(prefix),
                     {.inputs = 1,
                      .channels = config.width,
                      .heads = config.heads(),
                      .key = config.head,
                      .value = config.head},
                     draft_rows, device),
      config_(config),
      first_(first),
      norm_(config.norm()) {}

void TimeMixLayer::LowRank::Load(const std::string& name, int64_t rank, int64_t width, bool biased,
                                 WeightLoader& loader) {
  const MatrixValues first = loader.ReadMatrix(name + ".lora.0.weight", rank, width);
  const MatrixValues second = loader.ReadMatrix(name + ".lora.2.weight", width, rank);
  down = loader.Pack({&first});
  up = loader.Pack({&second});
  if (biased) bias = loader.Upload(loader.Read(name + ".lora.2.bias", {width}));
}

// What each of the shifted rows takes of the row before, in the order of Shifted: six tensors, or
// one in older directories.
std::vector<float> TimeMixLayer::ReadMix(WeightLoader& loader) const {
  const std::string joined = prefix() + "x_x";
  if (!loader.Has(prefix() + "x_r") && loader.Has(joined)) {
    return loader.Read(joined, {kShifted, config_.width});
  }
  std::vector<float> mix;
  for (const char* of : {"x_r", "x_w", "x_k", "x_v", "x_a", "x_g"}) {
    const std::vector<float> read = loader.Read(prefix() + of, {1, 1, config_.width});
    mix.insert(mix.end(), read.begin(), read.end());
  }
  return mix;
}

void TimeMixLayer::Load(WeightLoader& loader) {
  const int64_t width = config_.width;
  norm_.Load(NormNameOf(prefix()), loader);
  mix_ = loader.Upload(ReadMix(loader));
  const auto square = [&](const char* name) {
    const MatrixValues values = loader.ReadMatrix(prefix() + name + ".weight", width, width);
    return loader.Pack({&values});
  };
  r_ = square("r_proj");
  k_ = square("k_proj");
  v_ = square("v_proj");
  o_ = square("o_proj");
  decay_.Load(prefix() + "w_lora", config_.decay_rank, width, /*biased=*/true, loader);
  rate_.Load(prefix() + "a_lora", config_.rate_rank, width, /*biased=*/true, loader);
  gate_.Load(prefix() + "g_lora", config_.gate_rank, width, /*biased=*/false, loader);
  if (first_ != nullptr) {
    value_.Load(prefix() + "v_lora", config_.value_rank, width, /*biased=*/true, loader);
  }
  k_k_ = loader.Upload(loader.Read(prefix() + "k_k", {width}));
  k_a_ = loader.Upload(loader.Read(prefix() + "k_a", {width}));
  r_k_ = loader.Upload(loader.Read(prefix() + "r_k", {config_.heads(), config_.head}));
  head_gain_ = loader.Upload(loader.Read(prefix() + "g_norm.weight", {width}));
  head_bias_ = loader.Upload(loader.Read(prefix() + "g_norm.bias", {width}));
}

void TimeMixLayer::ReserveRows(int64_t rows, WorkingMemory& memory) {
  const int64_t numbers = rows * config_.width;
  memory.Share(&normed_, numbers);
  memory.Share(&shifted_, kShifted * numbers);
  memory.Share(&low_, rows * config_.largest_rank());
  memory.Share(&r_rows_, numbers);
  memory.Share(&k_rows_, numbers);
  if (first_ == nullptr) {
    memory.Keep(&v_rows_, numbers);  // later blocks read it
  } else {
    memory.Share(&v_rows_, numbers);
  }
  memory.Share(&decay_rows_, numbers);
  memory.Share(&rate_rows_, numbers);
  memory.Share(&v_mix_, numbers);
  memory.Share(&gate_rows_, numbers);
  memory.Share(&out_, numbers);
}

absl::Status TimeMixLayer::Apply(const LowRank& factors, Shifted x, Activation inside,
                                 Activation outside, float* y, const LayerRows& rows) {
  const int64_t n = rows.x.dim(0), width = config_.width;
  const Matrix<float> low{low_, {n, factors.down.out}};
  absl::Status s = Multiply({.x = Rows(shifted_ + x * n * width, n),
                             .weight = factors.down,
                             .y = low,
                             .activation = inside},
                            rows);
  if (!s.ok()) return s;
  return Multiply({.x = low,
                   .weight = factors.up,
                   .y = Rows(y, n),
                   .bias = OptionalVector(factors.bias, width),
                   .activation = outside},
                  rows);
}

absl::Status TimeMixLayer::Project(const LayerRows& rows) {
  const int64_t n = rows.x.dim(0), width = config_.width;
  constexpr Activation kNone = Activation::kNone, kSigmoid = Activation::kSigmoid;
  const auto project = [&](Shifted x, const LinearWeight& weight, float* y) {
    return Multiply({.x = Rows(shifted_ + x * n * width, n), .weight = weight, .y = Rows(y, n)},
                    rows);
  };
  absl::Status s = project(kR, r_, r_rows_);
  if (s.ok()) s = project(kK, k_, k_rows_);
  if (s.ok()) s = project(kV, v_, v_rows_);
  if (s.ok()) s = Apply(decay_, kW, Activation::kTanh, kSigmoid, decay_rows_, rows);
  if (s.ok()) s = Apply(rate_, kA, kNone, kSigmoid, rate_rows_, rows);
  if (s.ok()) s = Apply(gate_, kG, kSigmoid, kNone, gate_rows_, rows);
  if (s.ok() && first_ != nullptr) s = Apply(value_, kV, kNone, kSigmoid, v_mix_, rows);
  return s;
}

absl::Status TimeMixLayer::Compute(const RecurrentRows& sessions, const LayerRows& rows) {
  const int64_t n = rows.x.dim(0), width = config_.width;
  const Matrix<float> normed = Rows(normed_, n);
  absl::Status s = norm_.Apply(device_, rows.x, normed);
  if (!s.ok()) return s;
  s = TokenShift(device_, {.sessions = sessions,
                           .x = normed,
                           .mix = {mix_.as<const float>(), {kShifted, width}},
                           .out = {shifted_, {kShifted, n, width}}});
  if (s.ok()) s = Project(rows);
  if (!s.ok()) return s;
  RwkvTimeMixArgs args;
  args.sessions = sessions;
  args.r = Heads(r_rows_, n);
  args.k = Heads(k_rows_, n);
  args.v = Heads(v_rows_, n);
  args.decay = Heads(decay_rows_, n);
  args.rate = Heads(rate_rows_, n);
  args.gate = Heads(gate_rows_, n);
  if (first_ != nullptr) {
    args.v_first = Heads(first_->v_rows_, n);
    args.v_mix = Heads(v_mix_, n);
  }
  args.k_k = PerHead(k_k_);
  args.k_a = PerHead(k_a_);
  args.r_k = PerHead(r_k_);
  args.gain = PerHead(head_gain_);
  args.bias = PerHead(head_bias_);
  args.epsilon = static_cast<float>(config_.head) * config_.epsilon;
  args.out = Heads(out_, n);
  if (s = RwkvTimeMix(device_, args); !s.ok()) return s;
  return Multiply({.x = Rows(out_, n), .weight = o_, .y = rows.x, .accumulate = true}, rows);
}

}  // namespace tvq
