// Decode: one token of each of a batch of sessions, or several where they may be taken back.
#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/arch/transformer/model.h"

namespace tvq::transformer {
namespace {

SessionState& AsSession(State* state) { return static_cast<SessionState&>(*state); }

}  // namespace

const Transformer::RecordedStep* Transformer::Recorded(int64_t rows) const {
  if (attention_->host_takes_part()) return nullptr;
  const auto step = std::lower_bound(recorded_.begin(), recorded_.end(), rows,
                                     [](const RecordedStep& s, int64_t n) { return s.rows < n; });
  return step == recorded_.end() ? nullptr : &*step;
}

absl::Status Transformer::PlaceRows(std::span<const DecodeRow> rows) {
  fed_.clear();
  std::vector<const State*> states;
  int64_t drafts = 0;
  for (const DecodeRow& row : rows) {
    const bool follows = !fed_.empty() && fed_.back().state == row.state;
    if (follows) {
      fed_.push_back({row.state, fed_.back().position + 1, drafts++});
    } else {
      fed_.push_back({row.state, row.state->position(), -1});
      states.push_back(row.state);
    }
  }
  std::sort(states.begin(), states.end(), std::less<>());
  if (std::adjacent_find(states.begin(), states.end()) != states.end()) {
    fed_.clear();
    return absl::InvalidArgumentError(
        "a state has rows that are apart, must have them next to one another");
  }
  if (drafts <= DraftRows()) return absl::OkStatus();
  fed_.clear();
  return absl::InvalidArgumentError(absl::StrCat(
      drafts, " rows follow another of the same state, must be at most ", DraftRows()));
}

absl::Status Transformer::Decode(std::span<const DecodeRow> rows, Logits* logits) {
  if (absl::Status s = CheckPredicts(); !s.ok()) return s;
  if (absl::Status s = PlaceRows(rows); !s.ok()) return s;
  const auto tile = static_cast<size_t>(workspace_.rows());
  for (size_t first = 0; first < rows.size(); first += tile) {
    const size_t count = std::min(tile, rows.size() - first);
    const auto places = std::span<const FedRow>(fed_).subspan(first, count);
    if (absl::Status s = DecodeTile(rows.subspan(first, count), places, logits); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Transformer::Rewind(State& state, int64_t position) {
  SessionState& session = AsSession(&state);
  const auto is_draft = [&](const FedRow& row) {
    return row.state == &state && row.draft >= 0 && row.position < state.position();
  };
  const auto drafts = std::count_if(fed_.begin(), fed_.end(), [&](const FedRow& row) {
    return is_draft(row) && row.position >= position;
  });
  if (position > state.position() || state.position() - position != drafts) {
    return absl::InvalidArgumentError(
        absl::StrCat("the state is at position ", state.position(), " and cannot go back to ",
                     position, ", must be behind the first row that was fed to it last"));
  }
  // The last one first.
  for (auto row = fed_.rbegin(); state.position() > position; ++row) {
    if (!is_draft(*row)) continue;
    absl::Status s = attention_->TakeBack(session, row->position, row->draft);
    if (!s.ok()) return s;
    session.Retreat();
  }
  return absl::OkStatus();
}

std::vector<std::byte> Transformer::Views(std::span<const FedRow> rows, size_t padded) const {
  const size_t bytes = attention_->view_bytes();
  std::vector<std::byte> views(bytes * padded * static_cast<size_t>(config_.n_layer));
  for (int64_t layer = 0; layer < config_.n_layer; ++layer) {
    std::byte* view = views.data() + bytes * padded * static_cast<size_t>(layer);
    for (const FedRow& row : rows) {
      attention_->View(AsSession(row.state).Parts(layer), view);
      if (row.draft >= 0) attention_->ViewDraft(layer, row.draft, view);
      view += bytes;
    }
  }
  return views;
}

absl::Status Transformer::DecodeTile(std::span<const DecodeRow> rows,
                                     std::span<const FedRow> places, Logits* logits) {
  const int64_t n = static_cast<int64_t>(rows.size());
  const RecordedStep* const recorded = Recorded(n);
  const auto padded = static_cast<size_t>(recorded == nullptr ? n : recorded->rows);
  std::vector<int32_t> tokens;
  std::vector<int64_t> positions;
  for (const DecodeRow& row : rows) tokens.push_back(row.token);
  for (const FedRow& row : places) positions.push_back(row.position);
  if (absl::Status s = CheckTokens(tokens); !s.ok()) return s;
  for (const FedRow& row : places) {
    SessionState& state = AsSession(row.state);
    if (absl::Status s = state.Extend(row.position + 1 - state.position()); !s.ok()) return s;
  }
  tokens.resize(padded);
  positions.resize(padded);
  absl::Status s = workspace_.inputs().Set(*device_, tokens, positions, Views(places, padded));
  if (s.ok()) s = attention_->BeginStep(static_cast<int64_t>(padded));
  if (s.ok()) s = recorded == nullptr ? DecodeLayers() : recorded->layers->Run();
  if (!s.ok()) return s;
  for (const FedRow& row : places) AsSession(row.state).Advance(1);

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
