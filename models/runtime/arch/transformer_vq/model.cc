#include "models/runtime/arch/transformer_vq/model.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/qkvg_projection.h"
#include "kernels/ops/rms_norm.h"
#include "kernels/ops/vq_attention.h"

namespace tvq::transformer_vq {
namespace {

// Heads side by side: [N, H, V] as [N, H*V].
Matrix<const float> Flat(Tensor<float, 3> t) { return {t.data, {t.dim(0), t.dim(1) * t.dim(2)}}; }

absl::Status CheckLogitsRow(const Logits& logits, int64_t row, size_t values) {
  const auto [rows, vocab] = logits.view.shape;
  if (row >= 0 && row < rows && static_cast<int64_t>(values) == vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("row ", row, " of ", values,
                                                 " logits, must be a row below ", rows, " of ",
                                                 vocab, " logits"));
}

Vector<const float> VectorOf(const Buffer& buffer, int64_t size) {
  return {buffer.as<const float>(), {size}};
}

}  // namespace

VqModel::VqModel(VqConfig config, Weights weights, std::unique_ptr<Tokenizer> tokenizer,
                 std::shared_ptr<Device> device, StateLayout layout, Workspace workspace,
                 ModelInfo info)
    : config_(std::move(config)),
      device_(std::move(device)),
      weights_(std::move(weights)),
      tokenizer_(std::move(tokenizer)),
      layout_(layout),
      info_(std::move(info)),
      workspace_(std::move(workspace)) {}

absl::StatusOr<std::unique_ptr<Model>> VqModel::Create(const Config& config, WeightSource& source,
                                                       std::unique_ptr<Tokenizer> tokenizer,
                                                       const LoadOptions& options) {
  absl::StatusOr<VqConfig> parsed = ParseConfig(config);
  if (!parsed.ok()) return parsed.status();
  const DType state_dtype = options.state_dtype.value_or(DefaultStateDType(options.dtype));
  if (state_dtype == DType::kInt8) {
    return absl::InvalidArgumentError("state_dtype is int8, must be float32 or bfloat16");
  }
  absl::StatusOr<Weights> weights = LoadWeights(*parsed, source, options);
  if (!weights.ok()) return weights.status();
  absl::StatusOr<Workspace> workspace = Workspace::Create(*options.device, *parsed);
  if (!workspace.ok()) return workspace.status();

  ModelInfo info;
  info.family = kFamily;
  info.config = parsed->common;
  info.fingerprint = options.fingerprint;
  info.generation = options.generation;
  info.dtype = options.dtype;
  info.state_dtype = state_dtype;
  info.parameters = weights->parameters;
  info.weight_bytes = weights->bytes;
  info.weight_rounding = weights->rounding;
  const StateLayout layout(*parsed, info.state_dtype);
  return std::unique_ptr<Model>(new VqModel(*std::move(parsed), *std::move(weights),
                                            std::move(tokenizer), options.device, layout,
                                            *std::move(workspace), std::move(info)));
}

absl::StatusOr<std::unique_ptr<State>> VqModel::NewState() {
  absl::StatusOr<std::unique_ptr<VqSessionState>> state = VqSessionState::Create(*device_, layout_);
  if (!state.ok()) return state.status();
  return std::unique_ptr<State>(*std::move(state));
}

absl::StatusOr<Logits> VqModel::NewLogits(int64_t rows) {
  const int64_t vocab = config_.common.vocab_size;
  absl::StatusOr<Buffer> data =
      device_->Allocate(static_cast<size_t>(rows * vocab) * sizeof(float));
  if (!data.ok()) return data.status();
  Logits logits;
  logits.view = {data->as<float>(), {rows, vocab}};
  logits.data = *std::move(data);
  return logits;
}

absl::Status VqModel::ReadLogits(const Logits& logits, int64_t row, std::span<float> out) {
  if (absl::Status s = CheckLogitsRow(logits, row, out.size()); !s.ok()) return s;
  return device_->Receive(out.data(), logits.view.row(row), out.size_bytes());
}

absl::Status VqModel::WriteLogits(std::span<const float> values, Logits* logits, int64_t row) {
  if (absl::Status s = CheckLogitsRow(*logits, row, values.size()); !s.ok()) return s;
  return device_->Send(logits->view.row(row), values.data(), values.size_bytes());
}

absl::Status VqModel::Layers(int64_t chunk_rows, const Attend& attend) {
  Device& device = *device_;
  const RowInputs& rows = workspace_.inputs();
  const int64_t n = rows.tokens().size();
  EmbeddingArgs embed;
  embed.table = weights_.embedding.data();
  embed.dtype = weights_.dtype;
  embed.vocab = config_.common.vocab_size;
  embed.scales = VectorOf(weights_.embedding_scales, embed.vocab);
  embed.ids = rows.tokens();
  embed.positions = rows.positions();
  embed.position_scale = weights_.position_scale;
  embed.position_lam = config_.pe_lam;
  embed.out = workspace_.x(n);
  if (absl::Status s = Embedding(device, embed); !s.ok()) return s;

  const int64_t d = config_.d_model, h = config_.n_head, k = config_.d_k;
  for (int64_t l = 0; l < config_.n_layer; ++l) {
    const LayerWeights& layer = weights_.layers[static_cast<size_t>(l)];
    absl::Status s = QkvgProjection(device, {.x = workspace_.x(n),
                                             .gain = VectorOf(layer.norm_gain, d),
                                             .bias = VectorOf(layer.norm_bias, d),
                                             .weight = &layer.qkvg,
                                             .u = {layer.u.as<const float>(), {h, k}},
                                             .w = {layer.w.as<const float>(), {h, k}},
                                             .q_u = workspace_.q_u(n),
                                             .q_w = workspace_.q_w(n),
                                             .k = workspace_.k(n),
                                             .v = workspace_.v(n),
                                             .g = workspace_.g(n),
                                             .chunk_rows = chunk_rows});
    if (!s.ok()) return s;
    s = VqAssign(device, {workspace_.k(n), &layer.codebook, workspace_.codes(n)});
    if (!s.ok()) return s;
    if (tap_) {
      if (s = TapCodes(l, n); !s.ok()) return s;
    }
    s = HeadScores(device, {workspace_.q_u(n), &layer.codebook, workspace_.code_scores(n)});
    if (!s.ok()) return s;
    s = HeadScores(device, {workspace_.q_w(n), &layer.positions, workspace_.position_scores(n)});
    if (!s.ok()) return s;
    if (s = attend(l); !s.ok()) return s;
    s = GatedOutput(device, {Flat(workspace_.o(n)), Flat(workspace_.g(n)), &layer.out,
                             workspace_.x(n), chunk_rows});
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status VqModel::TapCodes(int64_t layer, int64_t rows) {
  const Matrix<int32_t> codes = workspace_.codes(rows);
  std::vector<int32_t> host(static_cast<size_t>(codes.size()));
  const size_t bytes = host.size() * sizeof(int32_t);
  if (absl::Status s = device_->Receive(host.data(), codes.data, bytes); !s.ok()) return s;
  tap_(layer, {host.data(), codes.shape});
  return device_->Send(codes.data, host.data(), bytes);
}

absl::Status VqModel::Prefill(std::span<const PrefillChunk> chunks, Logits* logits) {
  for (const PrefillChunk& chunk : chunks) {
    if (absl::Status s = PrefillOne(chunk, logits); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status VqModel::PrefillOne(const PrefillChunk& chunk, Logits* logits) {
  auto& state = static_cast<VqSessionState&>(*chunk.state);
  const int64_t first = state.position();
  const int64_t n = static_cast<int64_t>(chunk.tokens.size());
  if (n == 0 || n > NextChunk(first, n, config_.common.prefill_chunk)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a chunk of ", n, " tokens at position ", first,
        " is empty or crosses a multiple of prefill_chunk ", config_.common.prefill_chunk));
  }
  if (absl::Status s = CheckTokens(chunk.tokens); !s.ok()) return s;
  if (absl::Status s = state.Write(); !s.ok()) return s;
  std::vector<int64_t> positions(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) positions[static_cast<size_t>(i)] = first + i;

  absl::Status s = workspace_.inputs().Set(*device_, chunk.tokens, positions, {});
  if (!s.ok()) return s;
  s = Layers(config_.common.prefill_chunk, [&](int64_t layer) {
    VqPrefillAttentionArgs args;
    args.shape = layout_.shape();
    args.state = state.Layer(layer);
    args.position = first;
    args.code_scores = workspace_.code_scores(n);
    args.position_scores = workspace_.position_scores(n);
    args.codes = workspace_.codes(n);
    args.v = workspace_.v(n);
    args.out = workspace_.o(n);
    return VqPrefillAttention(*device_, args);
  });
  if (!s.ok()) return s;
  state.Advance(n);

  if (!chunk.targets.empty()) {
    if (s = Score(chunk); !s.ok()) return s;
  }
  if (chunk.logits_row < 0) return absl::OkStatus();
  return ComputeLogits(n - 1, {logits->view.row(chunk.logits_row), {1, logits->view.dim(1)}});
}

absl::Status VqModel::Score(const PrefillChunk& chunk) {
  const int64_t n = static_cast<int64_t>(chunk.tokens.size());
  if (static_cast<int64_t>(chunk.targets.size()) != n) {
    return absl::InvalidArgumentError(absl::StrCat("targets has ", chunk.targets.size(),
                                                   " entries, must have ", n, " like tokens"));
  }
  if (absl::Status s = CheckTokens(chunk.targets); !s.ok()) return s;
  for (int64_t first = 0; first < n; first += Workspace::kScoreRows) {
    const int64_t rows = std::min(Workspace::kScoreRows, n - first);
    const Matrix<float> logits = workspace_.score_logits(rows);
    if (absl::Status s = ComputeLogits(first, logits); !s.ok()) return s;
    const auto at = static_cast<size_t>(first), count = static_cast<size_t>(rows);
    const auto top = static_cast<size_t>(chunk.top_logprobs);
    TokenLogprobsArgs args;
    args.logits = logits;
    args.targets = chunk.targets.subspan(at, count);
    args.top = chunk.top_logprobs;
    args.target_out = chunk.target_logprobs.subspan(at, count);
    args.top_out = chunk.top.subspan(at * top, count * top);
    if (absl::Status s = TokenLogprobs(*device_, args); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status VqModel::ComputeLogits(int64_t first, Matrix<float> out) {
  const int64_t n = out.dim(0), d = config_.d_model;
  Matrix<float> x{workspace_.x(workspace_.rows()).row(first), {n, d}};
  if (config_.output_norm) {
    const Matrix<float> normed = workspace_.normed(n);
    absl::Status s = RmsNorm(
        *device_, {x, VectorOf(weights_.norm_gain, d), VectorOf(weights_.norm_bias, d), normed});
    if (!s.ok()) return s;
    x = normed;
  }
  LinearArgs args;
  args.x = x;
  args.weight = &weights_.logits;
  args.bias = VectorOf(weights_.logits_bias, out.dim(1));
  args.scale = static_cast<float>(config_.logit_scale);
  args.y = out;
  return Linear(*device_, args);
}

absl::Status VqModel::Sample(const Logits& logits, std::span<const SampleRow> rows, int64_t max_top,
                             std::span<TokenLogprob> chosen, std::span<TokenLogprob> top,
                             std::span<absl::Status> row_status) {
  SampleArgs args;
  args.logits = logits.view;
  args.rows = rows;
  args.chosen = chosen;
  args.top = top;
  args.max_top = max_top;
  args.row_status = row_status;
  return tvq::Sample(*device_, args);
}

absl::Status VqModel::CheckTokens(std::span<const int32_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= config_.common.vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "token ", i, " is id ", tokens[i], ", must be in [0, ", config_.common.vocab_size, ")"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq::transformer_vq
