#include "models/runtime/stack/device_model.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

absl::Status CheckLogitsRow(const Logits& logits, int64_t row, size_t values) {
  const auto [rows, vocab] = logits.view.shape;
  if (row >= 0 && row < rows && static_cast<int64_t>(values) == vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("row ", row, " of ", values,
                                                 " logits, must be a row below ", rows, " of ",
                                                 vocab, " logits"));
}

}  // namespace

DeviceModel::DeviceModel(const StackConfig& config, std::unique_ptr<Tokenizer> tokenizer,
                         const LoadOptions& options)
    : config_(config),
      device_(options.device),
      tokenizer_(std::move(tokenizer)),
      vocabulary_(config_, *device_) {
  info_.family = config.common.model_type;
  info_.left_out = options.left_out;
  info_.config = config.common;
  info_.fingerprint = options.fingerprint;
  info_.generation = options.generation;
  info_.conversations = options.conversations;
  info_.dtype = options.dtype;
}

absl::StatusOr<Logits> DeviceModel::NewLogits(int64_t rows) {
  const int64_t vocab = config_.common.vocab_size;
  absl::StatusOr<Buffer> data =
      device_->Allocate(static_cast<size_t>(rows * vocab) * sizeof(float));
  if (!data.ok()) return data.status();
  Logits logits;
  logits.view = {data->as<float>(), {rows, vocab}};
  logits.data = *std::move(data);
  return logits;
}

absl::Status DeviceModel::ReadLogits(const Logits& logits, int64_t row, std::span<float> out) {
  if (absl::Status s = CheckLogitsRow(logits, row, out.size()); !s.ok()) return s;
  return device_->Receive(out.data(), logits.view.row(row), out.size_bytes());
}

absl::Status DeviceModel::WriteLogits(std::span<const float> values, Logits* logits, int64_t row) {
  if (absl::Status s = CheckLogitsRow(*logits, row, values.size()); !s.ok()) return s;
  return device_->Send(logits->view.row(row), values.data(), values.size_bytes());
}

absl::Status DeviceModel::Sample(const Logits& logits, std::span<const SampleRow> rows,
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

}  // namespace tvq
