#include "models/runtime/families/encoder/model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

absl::Status PredictsNothing() {
  return absl::UnimplementedError("an encoder predicts no next token");
}

}  // namespace

EncoderModel::EncoderModel(const TransformerConfig& config, std::unique_ptr<Tokenizer> tokenizer,
                           const LoadOptions& options)
    : DeviceModel(config, std::move(tokenizer), options),
      collected_bytes_(EncoderLayer::CollectedBytes(config)),
      tap_(std::make_shared<KeyTap>()) {
  for (int64_t l = 0; l < config.n_layer; ++l) {
    layers_.push_back(std::make_unique<EncoderLayer>(config, *device_, tap_, l));
  }
  info_.predicts = false;
  info_.products = config.n_layer * (config.block == Block::kGated ? 2 : 4);
}

absl::StatusOr<std::unique_ptr<Model>> EncoderModel::Create(const TransformerConfig& config,
                                                            WeightSource& source,
                                                            std::unique_ptr<Tokenizer> tokenizer,
                                                            const LoadOptions& options) {
  std::unique_ptr<EncoderModel> model(new EncoderModel(config, std::move(tokenizer), options));
  absl::Status s = model->Load(source, options, model->layers_);
  if (s.ok()) {
    s = model->Reserve(model->layers_, {}, [&](WorkingMemory& memory) {
      memory.Keep(&model->x_, config.rows() * config.d_model);
    });
  }
  if (!s.ok()) return s;
  return model;
}

// Runs the longest piece of a text once, so that no memory grows later.
absl::Status EncoderModel::Prepare(const Preparation&) {
  if (device_->host_memory()) return absl::OkStatus();
  const int64_t longest = config_.common.max_position, chunk = config_.common.prefill_chunk;
  const std::vector<int32_t> tokens(
      static_cast<size_t>(longest > 0 ? std::min(longest, chunk) : chunk));
  const std::unique_ptr<EncodingState> text = NewText(StateReuse::kOnce);
  absl::Status s = Begin(*text, tokens);
  if (s.ok()) s = Advance(*text, Rows(std::ssize(tokens)));
  return s.ok() ? device_->Synchronize() : s;  // before what it used is freed
}

absl::Status EncoderModel::Prefill(const PrefillChunk&, Logits*) { return PredictsNothing(); }

absl::Status EncoderModel::Decode(std::span<const DecodeRow>, Logits*) { return PredictsNothing(); }

absl::Status EncoderModel::Begin(State& state, std::span<const int32_t> tokens) {
  if (absl::Status s = vocabulary_.CheckTokens(tokens); !s.ok()) return s;
  return static_cast<EncodingState&>(state).Begin(tokens);
}

absl::Status EncoderModel::Advance(State& state, int64_t rows) {
  auto& encoding = static_cast<EncodingState&>(state);
  if (encoding.length() == 0) return absl::FailedPreconditionError("there is no text to encode");
  while (rows > 0 && encoding.pass() < passes()) {
    const int64_t n =
        std::min({rows, encoding.length() - encoding.row(), config_.common.prefill_chunk});
    if (absl::Status s = EncodeRows(encoding, n); !s.ok()) return s;
    encoding.Advance(n);
    rows -= n;
  }
  return absl::OkStatus();
}

absl::Status EncoderModel::EncodeRows(EncodingState& encoding, int64_t n) {
  EncoderLayer& layer = *layers_[static_cast<size_t>(encoding.pass() / 2)];
  const Matrix<float> kept = encoding.Rows(encoding.row(), n), x{x_, {n, config_.d_model}};
  const LayerRows rows{x, config_.common.prefill_chunk};
  const auto bytes = static_cast<size_t>(kept.size()) * sizeof(float);
  const bool collects = encoding.pass() % 2 == 0;
  absl::Status s;
  if (encoding.pass() == 0) {
    s = EmbedRows(encoding, x);
    if (s.ok()) s = device_->CopyWithin(kept.data, x.data, bytes);
  } else {
    s = device_->CopyWithin(x.data, kept.data, bytes);
  }
  if (s.ok() && collects && encoding.row() == 0) s = encoding.ClearCollected();
  if (!s.ok()) return s;
  if (collects) return layer.Collect(encoding, rows);
  s = layer.Attend(encoding, rows);
  return s.ok() ? device_->CopyWithin(kept.data, x.data, bytes) : s;
}

absl::Status EncoderModel::EmbedRows(const EncodingState& encoding, Matrix<float> out) {
  const int64_t first = encoding.row(), n = out.dim(0);
  std::vector<int64_t> positions(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) positions[static_cast<size_t>(i)] = first + i;
  const auto tokens = encoding.tokens().subspan(static_cast<size_t>(first), static_cast<size_t>(n));
  absl::Status s = inputs_.Set(*device_, tokens, positions, {});
  return s.ok() ? vocabulary_.Embed(inputs_.tokens(), inputs_.positions(), out) : s;
}

absl::Status EncoderModel::Read(const State& state, bool mean, std::span<float> out) {
  const auto& encoding = static_cast<const EncodingState&>(state);
  const int64_t tokens = encoding.length(), d = config_.d_model;
  if (tokens == 0 || encoding.pass() < passes()) {
    return absl::FailedPreconditionError("the text was not encoded yet");
  }
  if (static_cast<int64_t>(out.size()) != (mean ? 1 : tokens) * d) {
    return absl::InvalidArgumentError(
        absl::StrCat("out has ", out.size(), " numbers, must have ", (mean ? 1 : tokens) * d));
  }
  std::vector<double> sums(static_cast<size_t>(mean ? d : 0));
  std::vector<float> part;
  for (int64_t first = 0; first < tokens; first += config_.rows()) {
    const int64_t n = std::min(config_.rows(), tokens - first);
    const absl::StatusOr<Matrix<float>> rows = vocabulary_.Norm(encoding.Rows(first, n));
    if (!rows.ok()) return rows.status();
    part.resize(static_cast<size_t>(n * d));
    const size_t bytes = part.size() * sizeof(float);
    if (absl::Status s = device_->Receive(part.data(), rows->data, bytes); !s.ok()) return s;
    if (mean) {
      for (size_t i = 0; i < part.size(); ++i) sums[i % sums.size()] += part[i];
    } else {
      std::copy(part.begin(), part.end(), out.begin() + first * d);
    }
  }
  std::transform(sums.begin(), sums.end(), out.begin(),
                 [&](double sum) { return static_cast<float>(sum / static_cast<double>(tokens)); });
  return absl::OkStatus();
}

}  // namespace tvq
