// Decode: one token of each of a batch of sessions.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/ops/vq_attention.h"
#include "models/runtime/arch/transformer_vq/model.h"

namespace tvq::transformer_vq {

const VqModel::RecordedStep* VqModel::Recorded(int64_t rows) const {
  if (tap_) return nullptr;  // its work is the host's
  const auto step = std::lower_bound(recorded_.begin(), recorded_.end(), rows,
                                     [](const RecordedStep& s, int64_t n) { return s.rows < n; });
  return step == recorded_.end() ? nullptr : &*step;
}

absl::Status VqModel::Decode(std::span<const DecodeRow> rows, Logits* logits) {
  const auto tile = static_cast<size_t>(workspace_.rows());
  for (size_t first = 0; first < rows.size(); first += tile) {
    const std::span<const DecodeRow> part =
        rows.subspan(first, std::min(tile, rows.size() - first));
    if (absl::Status s = DecodeTile(part, logits); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status VqModel::DecodeTile(std::span<const DecodeRow> rows, Logits* logits) {
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
    if (absl::Status s = static_cast<VqSessionState&>(*row.state).Write(); !s.ok()) return s;
  }

  std::vector<VqState> states;
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
    for (const DecodeRow& row : rows) {
      states.push_back(static_cast<const VqSessionState&>(*row.state).Layer(layer));
    }
    states.resize(static_cast<size_t>(layer + 1) * padded);  // of nobody
  }
  tokens.resize(padded);
  positions.resize(padded);
  absl::Status s = workspace_.inputs().Set(*device_, tokens, positions, states);
  if (s.ok()) s = recorded == nullptr ? DecodeLayers(n) : recorded->layers->Run();
  if (!s.ok()) return s;
  for (const DecodeRow& row : rows) static_cast<VqSessionState&>(*row.state).Advance(1);

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

absl::Status VqModel::DecodeLayers(int64_t rows) {
  return Layers(0, [&](int64_t layer) {
    VqDecodeAttentionArgs args;
    args.shape = layout_.shape();
    args.states = workspace_.inputs().states(layer);
    args.positions = workspace_.inputs().positions();
    args.code_scores = workspace_.code_scores(rows);
    args.position_scores = workspace_.position_scores(rows);
    args.codes = workspace_.codes(rows);
    args.v = workspace_.v(rows);
    args.out = workspace_.o(rows);
    return VqDecodeAttention(*device_, args);
  });
}

}  // namespace tvq::transformer_vq
