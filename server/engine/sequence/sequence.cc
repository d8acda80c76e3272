#include "server/engine/sequence/sequence.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tvq {
namespace {

bool AllowsOnly(std::span<const uint32_t> mask, std::span<const int32_t> ids) {
  std::vector<uint32_t> others(mask.begin(), mask.end());
  for (const int32_t id : ids) others[static_cast<size_t>(id / 32)] &= ~(1U << (id % 32));
  return std::ranges::all_of(others, [](uint32_t word) { return word == 0; });
}

}  // namespace

std::optional<Drafter> PromptDrafter(const Request& request) {
  const SamplingParams& sampling = request.sampling;
  // A draft has a sampled token before it, and one behind it.
  if (sampling.max_tokens < 3 || HasPenalty(sampling) || sampling.grammar) return std::nullopt;
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  Drafter drafter(prompt + sampling.max_tokens);
  // What is older is forgotten again.
  const auto known = std::min(prompt, PromptLookup::kMostTokens);
  for (auto id = request.prompt.end() - known; id != request.prompt.end(); ++id) {
    drafter.Append(*id);
  }
  return drafter;
}

Sequence::Sequence(const Submission& submission, int32_t index, HeldState held,
                   std::optional<HeldDrafter> drafter)
    : submission_(&submission),
      index_(index),
      held_(std::move(held)),
      text_(*submission.text),
      counts_(submission.counts),
      drafter_(std::move(drafter)),
      output_{.index = index} {}

std::span<const int32_t> Sequence::Draft(int64_t most) {
  if (!drafter_) return {};
  const int64_t left = params().max_tokens - generated_;
  return drafter_->drafter.Draft(std::min(most, left - 1));
}

int64_t Sequence::PositionWithoutDraft() const {
  return state()->position() - (drafter_ ? std::ssize(drafter_->drafter.draft()) : 0);
}

absl::Status Sequence::TakeBackDraft(Model& model) {
  if (!drafter_ || drafter_->drafter.draft().empty()) return absl::OkStatus();
  const absl::Status status = model.drafts()->Rewind(*state(), PositionWithoutDraft() + right_);
  drafter_->drafter.Verified(right_);
  right_ = 0;
  return status;
}

void Sequence::FindAllowed(const std::shared_ptr<GrammarThreads>& threads) {
  if (!params().grammar) return;
  if (!grammar_) {
    grammar_.emplace(params().grammar, submission_->request.owner, threads);
  } else if (const auto id = std::exchange(unread_, std::nullopt)) {
    grammar_->Accept(*id);
  }
}

absl::StatusOr<bool> Sequence::AwaitAllowed(SteadyTime until, SampleRow* row) const {
  if (!grammar_) return true;
  const auto mask = grammar_->Await(until);
  if (!mask.ok()) return mask.status();
  if (!*mask) return false;
  row->mask = **mask;
  if (!row->banned_ids.empty() && AllowsOnly(row->mask, row->banned_ids))
    row->banned_ids = {};  // min_tokens gives way
  return true;
}

SampleRow Sequence::NextSample(int64_t logits_row, int64_t right) const {
  const SamplingParams& p = params();
  SampleRow row;
  row.logits_row = logits_row;
  CopySampleNumbers(p, &row);
  row.counts = counts_.counts();
  row.logit_bias = p.logit_bias;
  row.allowed_ids = p.allowed_token_ids;
  if (generated_ + right < p.min_tokens) row.banned_ids = submission_->end_ids;
  row.seed = *p.seed;
  row.sample_index = static_cast<uint64_t>(index_);
  row.position = static_cast<uint64_t>(PositionWithoutDraft() + right);
  row.top_logprobs = p.logprobs.value_or(-1);
  return row;
}

bool Sequence::Ends(int32_t id) const {
  const SamplingParams& p = params();
  return (IsEos(id) && !p.ignore_eos) ||
         std::binary_search(p.stop_token_ids.begin(), p.stop_token_ids.end(), id);
}

bool Sequence::IsEos(int32_t id) const {
  return std::ranges::binary_search(submission_->eos_ids, id);
}

bool Sequence::OutputIsDue(int64_t interval) const {
  return finished_ || generated_ == 1 || std::ssize(output_.tokens) >= interval;
}

Delta Sequence::TakeOutput() { return std::exchange(output_, {.index = index_}); }

void Sequence::End(int32_t id) {
  finished_ = true;
  pending_.reset();
  if (params().include_stop_str_in_output && !IsEos(id)) output_.text += text_.Push(id, false).text;
  output_.text += text_.Finish(false).text;
  output_.finish = FinishReason::kStop;
  const std::vector<int32_t>& asked = params().stop_token_ids;
  if (std::ranges::binary_search(asked, id)) output_.stop_token = id;
}

int64_t Sequence::Accept(TokenEvent event) {
  const SamplingParams& p = params();
  const int32_t id = event.token.id;
  if (Ends(id)) {
    End(id);
    return 0;
  }

  pending_ = id;
  if (grammar_) unread_ = id;
  ++generated_;
  if (submission_->request.keep) tokens_.push_back(id);
  if (HasPenalty(p)) counts_.AddOutput(id);
  const bool armed = generated_ > p.min_tokens;
  StreamPiece piece = text_.Push(id, armed);
  const bool full = generated_ == p.max_tokens;
  if (full && !piece.stop) {
    StreamPiece rest = text_.Finish(armed);
    piece.text += rest.text;
    piece.stop = std::move(rest.stop);
  }
  if (piece.stop) stop_ = *piece.stop;
  output_.text += piece.text;
  output_.tokens.push_back(std::move(event));
  if (piece.stop) output_.finish = FinishReason::kStop;
  if (full && !piece.stop) output_.finish = FinishReason::kLength;
  output_.stop_string = std::move(piece.stop);
  finished_ = output_.finish != FinishReason::kNone;
  if (drafter_ && !finished_) {
    const std::span<const int32_t> draft = drafter_->drafter.draft();
    if (right_ < std::ssize(draft) && draft[static_cast<size_t>(right_)] == id) ++right_;
    drafter_->drafter.Append(id);
  }
  return 1;
}

}  // namespace tvq
