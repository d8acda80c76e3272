// Prepare: what is done before the first call on a device with memory of its own.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/ops/token_logprobs.h"
#include "models/runtime/stack/stack.h"

namespace tvq {

absl::Status Stack::Prepare(const Preparation& preparation) {
  if (device_->host_memory()) return absl::OkStatus();
  const int64_t rows = std::clamp<int64_t>(preparation.decode_rows, 1, config_.rows());
  // First comes what needs most memory: if memory grew after a recording, what the recording uses
  // would have to stay allocated beside the new memory.
  absl::Status s = Rehearse(preparation);
  const bool record = preparation.record && device_->records();
  if (s.ok()) s = RecordSteps(rows, record);
  return s.ok() ? device_->Synchronize() : s;
}

// Steps are recorded for powers of two of rows: a batch runs a recorded step that is less than
// twice as large. The rows it lacks belong to no session and cost little, since they read no state.
// The largest step comes first, so that all memory has grown before a step is recorded. Without
// `record` each step still runs once, since a kernel takes memory and time when it first runs, and
// several sizes have kernels of their own.
absl::Status Stack::RecordSteps(int64_t decode_rows, bool record) {
  std::vector<int64_t> sizes{1};
  while (sizes.back() < decode_rows) sizes.push_back(std::min(2 * sizes.back(), config_.rows()));
  recorded_.clear();
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    const auto rows = static_cast<size_t>(*size);
    const std::vector<int32_t> tokens(rows);
    const std::vector<int64_t> positions(rows);
    const std::vector<std::byte> no_session = Views({}, rows);
    absl::Status s = inputs_.Set(*device_, tokens, positions, no_session);
    if (s.ok()) s = DecodeLayers();
    if (!s.ok()) return s;
    if (!record) continue;
    auto layers = device_->Record([&] { return DecodeLayers(); });
    if (!layers.ok()) return layers.status();
    recorded_.insert(recorded_.begin(), RecordedStep{*size, *std::move(layers)});
  }
  return absl::OkStatus();
}

absl::Status Stack::Rehearse(const Preparation& preparation) {
  // Sampling comes first, while all logits are zero and thus finite.
  const int64_t rows = std::max<int64_t>(1, preparation.decode_rows);
  const int64_t top = std::min(preparation.top_logprobs, config_.common.vocab_size);
  auto logits = NewLogits(rows);
  if (!logits.ok()) return logits.status();
  const auto drawn = static_cast<size_t>(rows), tops = static_cast<size_t>(top);
  const std::vector<SampleRow> draws(drawn, {.top_logprobs = top});
  std::vector<TokenLogprob> chosen(drawn), alternatives(drawn * tops);
  std::vector<absl::Status> row_status(drawn);
  absl::Status s = Sample(*logits, draws, top, chosen, alternatives, row_status);
  if (!s.ok()) return s;

  constexpr auto kScored = static_cast<size_t>(kScoreRows);
  const std::vector<int32_t> targets(kScored);
  chosen.resize(kScored);
  alternatives.resize(kScored * tops);
  s = TokenLogprobs(*device_, {.logits = score_logits(kScoreRows),
                               .targets = targets,
                               .top = top,
                               .target_out = chosen,
                               .top_out = alternatives});
  if (!s.ok()) return s;

  const auto state = SessionState::Create(*device_, layout_, StateReuse::kOnce);
  if (!state.ok()) return state.status();
  const int64_t longest = config_.common.max_position, chunk = config_.common.prefill_chunk;
  const std::vector<int32_t> tokens(
      static_cast<size_t>(longest > 0 ? std::min(longest, chunk) : chunk));
  s = Prefill({.state = state->get(), .tokens = tokens}, nullptr);
  if (!s.ok()) return s;
  const int64_t at_once = std::min(rows, config_.rows());
  s = ComputeLogits(0, {logits->view.data, {at_once, logits->view.dim(1)}});
  const int64_t scored = std::min(kScoreRows, config_.common.prefill_chunk);
  if (s.ok()) s = ComputeLogits(0, score_logits(scored));
  return s.ok() ? device_->Synchronize() : s;  // before what it used is freed
}

}  // namespace tvq
