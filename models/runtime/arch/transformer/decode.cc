// Decode: one token of each of a batch of sessions.
#include <algorithm>
#include <utility>
#include <vector>

#include "models/runtime/arch/transformer/model.h"

namespace tvq::transformer {
namespace {

SessionState& StateOf(const DecodeRow& row) { return static_cast<SessionState&>(*row.state); }

}  // namespace

const Transformer::RecordedStep* Transformer::Recorded(int64_t rows) const {
  if (attention_->host_takes_part()) return nullptr;
  const auto step = std::lower_bound(recorded_.begin(), recorded_.end(), rows,
                                     [](const RecordedStep& s, int64_t n) { return s.rows < n; });
  return step == recorded_.end() ? nullptr : &*step;
}

absl::Status Transformer::Decode(std::span<const DecodeRow> rows, Logits* logits) {
  const auto tile = static_cast<size_t>(workspace_.rows());
  for (size_t first = 0; first < rows.size(); first += tile) {
    const std::span<const DecodeRow> part =
        rows.subspan(first, std::min(tile, rows.size() - first));
    if (absl::Status s = DecodeTile(part, logits); !s.ok()) return s;
  }
  return absl::OkStatus();
}

std::vector<std::byte> Transformer::Views(std::span<const DecodeRow> rows, size_t padded) const {
  const size_t bytes = attention_->view_bytes();
  std::vector<std::byte> views(bytes * padded * static_cast<size_t>(config_.n_layer));
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
    std::byte* view = views.data() + bytes * padded * static_cast<size_t>(layer);
    for (const DecodeRow& row : rows) {
      attention_->View(StateOf(row), layer, view);
      view += bytes;
    }
  }
  return views;
}

absl::Status Transformer::DecodeTile(std::span<const DecodeRow> rows, Logits* logits) {
  const int64_t n = static_cast<int64_t>(rows.size());
  const RecordedStep* const recorded = Recorded(n);
  const auto padded = static_cast<size_t>(recorded == nullptr ? n : recorded->rows);
  std::vector<int32_t> tokens;
  std::vector<int64_t> positions;
  for (const DecodeRow& row : rows) {
    tokens.push_back(row.token);
    positions.push_back(row.state->position());
  }
  if (absl::Status s = CheckTokens(tokens); !s.ok()) return s;
  for (const DecodeRow& row : rows) {
    if (absl::Status s = StateOf(row).Extend(1); !s.ok()) return s;
  }
  tokens.resize(padded);
  positions.resize(padded);
  absl::Status s = workspace_.inputs().Set(*device_, tokens, positions, Views(rows, padded));
  if (s.ok()) s = attention_->BeginStep(static_cast<int64_t>(padded));
  if (s.ok()) s = recorded == nullptr ? DecodeLayers() : recorded->layers->Run();
  if (!s.ok()) return s;
  for (const DecodeRow& row : rows) StateOf(row).Advance(1);

  // Rows whose places in `logits` follow one another are computed together.
  for (int64_t first = 0; first < n;) {
    const int64_t place = rows[static_cast<size_t>(first)].logits_row;
    int64_t last = first + 1;
    while (last < n && rows[static_cast<size_t>(last)].logits_row == place + (last - first)) ++last;
    const Matrix<float> out{logits->view.row(place), {last - first, logits->view.dim(1)}};
    if (s = ComputeLogits(first, out); !s.ok()) return s;
    first = last;
  }
  return absl::OkStatus();
}

absl::Status Transformer::DecodeLayers() {
  return Layers(0, [&](int64_t layer, const AttentionRows& rows) {
    return attention_->Decode(layer, workspace_.inputs(), rows);
  });
}

}  // namespace tvq::transformer
