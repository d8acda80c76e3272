#include "tests/bench/sessions.h"

#include <utility>

#include "tests/bench/statistics.h"
#include "tests/models/synthetic_state.h"

namespace tvq::bench {

std::vector<int32_t> PromptTokens(int64_t count, int64_t vocab) {
  // A full-period generator modulo 2^32 (Numerical Recipes), its upper bits as ids.
  uint32_t random = 1;
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) {
    random = random * 1664525u + 1013904223u;
    token = static_cast<int32_t>(static_cast<int64_t>(random >> 8) % vocab);
  }
  return tokens;
}

absl::StatusOr<int64_t> FeedPrompt(Model& model, State& state, std::span<const int32_t> tokens,
                                   Logits& logits) {
  int64_t chunks = 0;
  while (!tokens.empty()) {
    const int64_t n = NextChunk(state.position(), static_cast<int64_t>(tokens.size()),
                                model.info().config.prefill_chunk);
    PrefillChunk chunk;
    chunk.state = &state;
    chunk.tokens = tokens.first(static_cast<size_t>(n));
    tokens = tokens.subspan(static_cast<size_t>(n));
    if (tokens.empty()) chunk.logits_row = 0;
    if (absl::Status s = model.Prefill(chunk, &logits); !s.ok()) return s;
    ++chunks;
  }
  return chunks;
}

absl::StatusOr<Sessions> Sessions::Create(Model& model, Device& device, int64_t count) {
  Sessions sessions(model, device);
  for (int64_t i = 0; i < count; ++i) {
    absl::StatusOr<std::unique_ptr<State>> state = model.NewState();
    if (!state.ok()) return state.status();
    sessions.states_.push_back(*std::move(state));
  }
  sessions.pending_ = PromptTokens(count, model.info().config.vocab_size);
  absl::StatusOr<Logits> logits = model.NewLogits(count);
  if (!logits.ok()) return logits.status();
  sessions.logits_ = *std::move(logits);
  return sessions;
}

absl::Status Sessions::Synthesize(int64_t context) {
  // A few are made, which takes the host a while, and the others are copies that are fed their own
  // tokens.
  constexpr size_t kMade = 8;
  absl::Status s;
  for (size_t i = 0; s.ok() && i < states_.size(); ++i) {
    s = i < kMade ? tvq::Synthesize(*model_, *states_[i], context, i + 1)
                  : states_[i]->CopyFrom(*states_[i % kMade]);
  }
  return s;
}

absl::Status Sessions::Prefill(std::span<const int32_t> tokens) {
  Matrix<float>& rows = logits_.view;
  const Matrix<float> all = rows;
  absl::Status status;
  for (size_t i = 0; status.ok() && i < states_.size(); ++i) {
    rows.data = all.row(static_cast<int64_t>(i));
    status.Update(FeedPrompt(*model_, *states_[i], tokens, logits_).status());
  }
  rows = all;
  return status.ok() ? SampleNext() : status;
}

absl::Status Sessions::Step() {
  std::vector<DecodeRow> rows(states_.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = {states_[i].get(), pending_[i], static_cast<int64_t>(i)};
  }
  if (absl::Status s = model_->Decode(rows, &logits_); !s.ok()) return s;
  return SampleNext();
}

absl::Status Sessions::SampleNext() {
  const size_t n = states_.size();
  std::vector<SampleRow> choices(n);
  for (size_t i = 0; i < n; ++i) {
    choices[i].logits_row = static_cast<int64_t>(i);
    choices[i].sample_index = i;
    choices[i].position = static_cast<uint64_t>(states_[i]->position());
  }
  std::vector<TokenLogprob> chosen(n);
  std::vector<absl::Status> row_status(n);
  if (absl::Status s = model_->Sample(logits_, choices, 0, chosen, {}, row_status); !s.ok()) {
    return s;
  }
  for (size_t i = 0; i < n; ++i) {
    if (!row_status[i].ok()) return row_status[i];
    pending_[i] = chosen[i].id;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Sessions::LogitsHash() const {
  std::vector<float> host(static_cast<size_t>(logits_.view.size()));
  absl::Status s = device_->CopyToHost(host.data(), logits_.view.data, host.size() * sizeof(float));
  if (!s.ok()) return s;
  return Fnv1a(host);
}

}  // namespace tvq::bench
