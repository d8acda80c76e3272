#include "models/runtime/arch/transformer/model.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tvq::transformer {
namespace {

absl::Status CheckLogitsRow(const Logits& logits, int64_t row, size_t values) {
  const auto [rows, vocab] = logits.view.shape;
  if (row >= 0 && row < rows && static_cast<int64_t>(values) == vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("row ", row, " of ", values,
                                                 " logits, must be a row below ", rows, " of ",
                                                 vocab, " logits"));
}

StateLayout LayoutOf(const TransformerConfig& config, const Attention& attention) {
  return {std::vector(static_cast<size_t>(config.n_layer), &attention.parts()),
          config.common.max_position};
}

}  // namespace

Transformer::Transformer(TransformerConfig config, std::shared_ptr<Device> device,
                         std::unique_ptr<Attention> attention, Weights weights,
                         std::unique_ptr<Tokenizer> tokenizer, Workspace workspace, ModelInfo info)
    : config_(std::move(config)),
      device_(std::move(device)),
      attention_(std::move(attention)),
      layout_(LayoutOf(config_, *attention_)),
      weights_(std::move(weights)),
      tokenizer_(std::move(tokenizer)),
      info_(std::move(info)),
      workspace_(std::move(workspace)) {
  attention_->Place(layout_);
}

absl::StatusOr<std::unique_ptr<Model>> Transformer::Create(const TransformerConfig& config,
                                                           std::unique_ptr<Attention> attention,
                                                           WeightSource& source,
                                                           std::unique_ptr<Tokenizer> tokenizer,
                                                           const LoadOptions& options) {
  absl::StatusOr<Weights> weights = LoadWeights(config, *attention, source, options);
  if (!weights.ok()) return weights.status();
  absl::StatusOr<Workspace> workspace =
      Workspace::Create(*options.device, config, attention->view_bytes());
  if (!workspace.ok()) return workspace.status();
  if (absl::Status s = attention->Reserve(workspace->rows()); !s.ok()) return s;

  ModelInfo info;
  info.family = config.common.model_type;
  info.config = config.common;
  info.fingerprint = options.fingerprint;
  info.generation = options.generation;
  info.predicts = attention->bidirectional() == nullptr;
  info.dtype = options.dtype;
  info.state_dtype = attention->state_dtype();
  info.reads = attention->reads();
  info.parameters = weights->parameters;
  info.weight_bytes = weights->bytes;
  info.weight_rounding = weights->rounding;
  info.products = config.n_layer * (config.block == Block::kGated ? 2 : 4);
  info.kept = config.n_layer * attention->kept_parts();
  info.factors = config.n_layer * attention->rounded_factors();
  return std::unique_ptr<Model>(new Transformer(config, options.device, std::move(attention),
                                                *std::move(weights), std::move(tokenizer),
                                                *std::move(workspace), std::move(info)));
}

int64_t Transformer::StateBytes(const TransformerConfig& config, Attention& attention,
                                int64_t tokens) {
  const Bidirectional* const encodes = attention.bidirectional();
  return encodes == nullptr
             ? LayoutOf(config, attention).Bytes(tokens)
             : EncodingState::Bytes(config.d_model, encodes->collected_bytes(), tokens);
}

int64_t Transformer::StateBytes(int64_t tokens) const {
  return info_.predicts ? layout_.Bytes(tokens) : StateBytes(config_, *attention_, tokens);
}

absl::StatusOr<std::unique_ptr<State>> Transformer::NewStateIn(StateMemory memory) {
  if (info_.predicts) return SessionState::Create(*device_, layout_, memory);
  const int64_t collected = attention_->bidirectional()->collected_bytes();
  return std::make_unique<EncodingState>(*device_, config_.d_model, collected, memory);
}

absl::Status Transformer::CheckPredicts() const {
  if (info_.predicts) return absl::OkStatus();
  return absl::UnimplementedError("an encoder predicts no next token");
}

absl::StatusOr<Logits> Transformer::NewLogits(int64_t rows) {
  const int64_t vocab = config_.common.vocab_size;
  absl::StatusOr<Buffer> data =
      device_->Allocate(static_cast<size_t>(rows * vocab) * sizeof(float));
  if (!data.ok()) return data.status();
  Logits logits;
  logits.view = {data->as<float>(), {rows, vocab}};
  logits.data = *std::move(data);
  return logits;
}

absl::Status Transformer::ReadLogits(const Logits& logits, int64_t row, std::span<float> out) {
  if (absl::Status s = CheckLogitsRow(logits, row, out.size()); !s.ok()) return s;
  return device_->Receive(out.data(), logits.view.row(row), out.size_bytes());
}

absl::Status Transformer::WriteLogits(std::span<const float> values, Logits* logits, int64_t row) {
  if (absl::Status s = CheckLogitsRow(*logits, row, values.size()); !s.ok()) return s;
  return device_->Send(logits->view.row(row), values.data(), values.size_bytes());
}

absl::Status Transformer::Sample(const Logits& logits, std::span<const SampleRow> rows,
                                 int64_t max_top, std::span<TokenLogprob> chosen,
                                 std::span<TokenLogprob> top, std::span<absl::Status> row_status) {
  SampleArgs args;
  args.logits = logits.view;
  args.rows = rows;
  args.chosen = chosen;
  args.top = top;
  args.max_top = max_top;
  args.row_status = row_status;
  return tvq::Sample(*device_, args);
}

}  // namespace tvq::transformer
