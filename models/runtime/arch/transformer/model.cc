#include "models/runtime/arch/transformer/model.h"

#include <utility>

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

}  // namespace

Transformer::Transformer(TransformerConfig config, std::shared_ptr<Device> device,
                         std::unique_ptr<Attention> attention, Weights weights,
                         std::unique_ptr<Tokenizer> tokenizer, Workspace workspace, ModelInfo info)
    : config_(std::move(config)),
      device_(std::move(device)),
      attention_(std::move(attention)),
      weights_(std::move(weights)),
      tokenizer_(std::move(tokenizer)),
      info_(std::move(info)),
      workspace_(std::move(workspace)) {}

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

absl::StatusOr<std::unique_ptr<State>> Transformer::NewState() {
  return attention_->NewState(StateMemory::kReusable);
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
