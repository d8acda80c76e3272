// Prefill: feeds consecutive tokens to one session, and scores them.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/ops/token_logprobs.h"
#include "models/runtime/stack/stack.h"

namespace tvq {

absl::Status Stack::Prefill(const PrefillChunk& chunk, Logits* logits) {
  fed_.clear();
  auto& state = static_cast<SessionState&>(*chunk.state);
  const int64_t first = state.position();
  const int64_t n = static_cast<int64_t>(chunk.tokens.size());
  if (n == 0 || n > NextChunk(first, n, config_.common.prefill_chunk)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a chunk of ", n, " tokens at position ", first,
        " is empty or crosses a multiple of prefill_chunk ", config_.common.prefill_chunk));
  }
  if (absl::Status s = vocabulary_.CheckTokens(chunk.tokens); !s.ok()) return s;
  if (absl::Status s = state.Extend(n); !s.ok()) return s;
  std::vector<int64_t> positions(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) positions[static_cast<size_t>(i)] = first + i;

  absl::Status s = inputs_.Set(*device_, chunk.tokens, positions, {});
  if (s.ok()) s = Embed();
  if (s.ok()) s = PrefillLayers(state, n);
  if (!s.ok()) return s;
  state.Advance(n);

  if (!chunk.targets.empty()) {
    if (s = Score(chunk); !s.ok()) return s;
  }
  if (chunk.logits_row < 0) return absl::OkStatus();
  return ComputeLogits(n - 1, {logits->view.row(chunk.logits_row), {1, logits->view.dim(1)}});
}

absl::Status Stack::PrefillLayers(const SessionState& state, int64_t n) {
  const LayerRows rows{x(n), config_.common.prefill_chunk};
  absl::Status s;
  for (size_t l = 0; s.ok() && l < layers_.layers.size(); ++l) {
    s = layers_.layers[l]->Prefill({state.Parts(l), state.position(), inputs_.positions()}, rows);
  }
  return s;
}

absl::Status Stack::Score(const PrefillChunk& chunk) {
  const int64_t n = static_cast<int64_t>(chunk.tokens.size());
  if (static_cast<int64_t>(chunk.targets.size()) != n) {
    return absl::InvalidArgumentError(absl::StrCat("targets has ", chunk.targets.size(),
                                                   " entries, must have ", n, " like tokens"));
  }
  if (absl::Status s = vocabulary_.CheckTokens(chunk.targets); !s.ok()) return s;
  for (int64_t first = 0; first < n; first += kScoreRows) {
    const int64_t rows = std::min(kScoreRows, n - first);
    const Matrix<float> logits = score_logits(rows);
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

}  // namespace tvq
