// Decode: feeds one token to each session of a batch, or several where drafts may be taken back.
#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/stack/stack.h"

namespace tvq {
namespace {

SessionState& AsSession(State* state) { return static_cast<SessionState&>(*state); }

}  // namespace

const Stack::RecordedStep* Stack::Recorded(int64_t rows) const {
  if (layers_.key_tap != nullptr && layers_.key_tap->set()) return nullptr;
  const auto step = std::lower_bound(recorded_.begin(), recorded_.end(), rows,
                                     [](const RecordedStep& s, int64_t n) { return s.rows < n; });
  return step == recorded_.end() ? nullptr : &*step;
}

absl::Status Stack::PlaceRows(std::span<const DecodeRow> rows) {
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
  if (drafts <= draft_rows_) return absl::OkStatus();
  fed_.clear();
  return absl::InvalidArgumentError(absl::StrCat(
      drafts, " rows follow another of the same state, must be at most ", draft_rows_));
}

absl::Status Stack::Decode(std::span<const DecodeRow> rows, Logits* logits) {
  if (absl::Status s = PlaceRows(rows); !s.ok()) return s;
  const auto tile = static_cast<size_t>(config_.rows());
  for (size_t first = 0; first < rows.size(); first += tile) {
    const size_t count = std::min(tile, rows.size() - first);
    const auto places = std::span<const FedRow>(fed_).subspan(first, count);
    if (absl::Status s = DecodeTile(rows.subspan(first, count), places, logits); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Stack::Rewind(State& state, int64_t position) {
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
    for (size_t l = 0; l < layers_.layers.size(); ++l) {
      LayerUndo* const undo = layers_.layers[l]->undo();
      if (undo == nullptr) continue;
      absl::Status s = undo->TakeBack(session.Parts(l), row->position, row->draft);
      if (!s.ok()) return s;
    }
    session.Retreat();
  }
  return absl::OkStatus();
}

std::vector<std::byte> Stack::Views(std::span<const FedRow> rows, size_t padded) const {
  std::vector<std::byte> views(inputs_.view_bytes() * padded);
  std::byte* of_layer = views.data();
  for (size_t l = 0; l < layers_.layers.size(); ++l) {
    Layer& layer = *layers_.layers[l];
    std::byte* view = of_layer;
    for (const FedRow& row : rows) {
      layer.View(AsSession(row.state).Parts(l), view);
      if (row.draft >= 0 && layer.undo() != nullptr) layer.undo()->ViewDraft(row.draft, view);
      view += layer.view_bytes();
    }
    of_layer += layer.view_bytes() * padded;
  }
  return views;
}

absl::Status Stack::DecodeTile(std::span<const DecodeRow> rows, std::span<const FedRow> places,
                               Logits* logits) {
  const int64_t n = static_cast<int64_t>(rows.size());
  const RecordedStep* const recorded = Recorded(n);
  const auto padded = static_cast<size_t>(recorded == nullptr ? n : recorded->rows);
  std::vector<int32_t> tokens;
  std::vector<int64_t> positions;
  for (const DecodeRow& row : rows) tokens.push_back(row.token);
  for (const FedRow& row : places) positions.push_back(row.position);
  if (absl::Status s = vocabulary_.CheckTokens(tokens); !s.ok()) return s;
  for (const FedRow& row : places) {
    SessionState& state = AsSession(row.state);
    if (absl::Status s = state.Extend(row.position + 1 - state.position()); !s.ok()) return s;
  }
  tokens.resize(padded);
  positions.resize(padded);
  absl::Status s = inputs_.Set(*device_, tokens, positions, Views(places, padded));
  if (s.ok() && layers_.row_reads != nullptr) {
    s = layers_.row_reads->BeginStep(static_cast<int64_t>(padded));
  }
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

absl::Status Stack::DecodeLayers() {
  const LayerRows rows{x(inputs_.rows())};
  absl::Status s = Embed();
  for (size_t l = 0; s.ok() && l < layers_.layers.size(); ++l) {
    s = layers_.layers[l]->Decode(inputs_.states(l), rows);
  }
  return s;
}

}  // namespace tvq
