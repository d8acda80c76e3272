// Encoding: a whole text through one layer after the other, in both directions.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/arch/transformer/encoding_state.h"
#include "models/runtime/arch/transformer/model.h"

namespace tvq::transformer {

absl::Status Transformer::Begin(State& state, std::span<const int32_t> tokens) {
  if (absl::Status s = CheckTokens(tokens); !s.ok()) return s;
  return static_cast<EncodingState&>(state).Begin(tokens);
}

absl::Status Transformer::Advance(State& state, int64_t rows) {
  auto& encoding = static_cast<EncodingState&>(state);
  if (encoding.length() == 0) return absl::FailedPreconditionError("there is no text to encode");
  while (rows > 0 && encoding.pass() < 2 * config_.n_layer) {
    const int64_t n =
        std::min({rows, encoding.length() - encoding.row(), config_.common.prefill_chunk});
    if (absl::Status s = EncodeRows(encoding, n); !s.ok()) return s;
    encoding.Advance(n);
    rows -= n;
  }
  return absl::OkStatus();
}

// Queries, keys and values are projected in both passes of a layer: kept between them, they would
// take several times the memory of the rows.
absl::Status Transformer::EncodeRows(EncodingState& encoding, int64_t n) {
  const int64_t layer = encoding.pass() / 2, chunk_rows = config_.common.prefill_chunk;
  const Matrix<float> rows = encoding.Rows(encoding.row(), n), x = workspace_.x(n);
  const auto bytes = static_cast<size_t>(rows.size()) * sizeof(float);
  const bool collects = encoding.pass() % 2 == 0;
  absl::Status s;
  if (encoding.pass() == 0) {
    s = EmbedRows(encoding, n);
    if (s.ok()) s = device_->CopyWithin(rows.data, x.data, bytes);
  } else {
    s = device_->CopyWithin(x.data, rows.data, bytes);
  }
  if (s.ok() && collects && encoding.row() == 0) s = encoding.ClearCollected();
  if (!s.ok()) return s;
  if (collects) {
    if (s = Project(layer, n, chunk_rows); !s.ok()) return s;
    return attention_->bidirectional()->Collect(layer, encoding,
                                                {workspace_.v(n), workspace_.o(n)});
  }
  s = Layer(layer, n, chunk_rows, [&](int64_t l, const AttentionRows& projected) {
    return attention_->bidirectional()->Attend(l, encoding, projected);
  });
  return s.ok() ? device_->CopyWithin(rows.data, x.data, bytes) : s;
}

absl::Status Transformer::EmbedRows(const EncodingState& encoding, int64_t n) {
  const int64_t first = encoding.row();
  std::vector<int64_t> positions(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) positions[static_cast<size_t>(i)] = first + i;
  const auto tokens = encoding.tokens().subspan(static_cast<size_t>(first), static_cast<size_t>(n));
  absl::Status s = workspace_.inputs().Set(*device_, tokens, positions, {});
  return s.ok() ? Embed(n) : s;
}

absl::Status Transformer::Read(const State& state, bool mean, std::span<float> out) {
  const auto& encoding = static_cast<const EncodingState&>(state);
  const int64_t tokens = encoding.length(), d = config_.d_model;
  if (tokens == 0 || encoding.pass() < 2 * config_.n_layer) {
    return absl::FailedPreconditionError("the text was not encoded yet");
  }
  if (static_cast<int64_t>(out.size()) != (mean ? 1 : tokens) * d) {
    return absl::InvalidArgumentError(
        absl::StrCat("out has ", out.size(), " numbers, must have ", (mean ? 1 : tokens) * d));
  }
  std::vector<double> sums(static_cast<size_t>(mean ? d : 0));
  std::vector<float> part;
  for (int64_t first = 0; first < tokens; first += workspace_.rows()) {
    const int64_t n = std::min(workspace_.rows(), tokens - first);
    Matrix<float> rows = encoding.Rows(first, n);
    if (config_.output_norm) {
      const Matrix<float> normed = workspace_.normed(n);
      absl::Status s = Norm(rows, weights_.norm_gain, weights_.norm_bias, normed);
      if (!s.ok()) return s;
      rows = normed;
    }
    part.resize(static_cast<size_t>(n * d));
    const size_t bytes = part.size() * sizeof(float);
    if (absl::Status s = device_->Receive(part.data(), rows.data, bytes); !s.ok()) return s;
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

}  // namespace tvq::transformer
