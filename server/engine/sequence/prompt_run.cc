#include "server/engine/sequence/prompt_run.h"

#include <algorithm>

namespace tvq {

PromptRun::PromptRun(const Request& request, HeldState held, int64_t encoder_rows)
    : request_(&request), held_(std::move(held)), tokens_(request.prompt) {
  if (request.start) {
    const StartPoint& start = *request.start;
    tokens_ = tokens_.subspan(static_cast<size_t>(start.prompt_tokens));
    if (!start.pending.empty()) {
      joined_ = start.pending;
      joined_.insert(joined_.end(), tokens_.begin(), tokens_.end());
      tokens_ = joined_;
      pending_ = static_cast<int64_t>(start.pending.size());
    }
  }
  const bool last_is_spared = request.purpose == Purpose::kScore && !request.keep;
  total_ = static_cast<int64_t>(tokens_.size()) - (last_is_spared ? 1 : 0);
  if (request.purpose == Purpose::kEncode) total_ = encoder_rows;
  needs_first_ = scores() && pending_ == 0 && !tokens_.empty() && state()->position() > 0;
}

int64_t PromptRun::prompt_fed() const {
  const int64_t cached = request_->start ? request_->start->prompt_tokens : 0;
  return cached + std::max<int64_t>(0, fed_ - pending_);
}

void PromptRun::SetFirst(TokenEvent event) {
  first_ = std::move(event);
  needs_first_ = false;
}

PrefillChunk PromptRun::Chunk(int64_t length, int64_t logits_row) {
  const auto first = static_cast<size_t>(fed_);
  const auto count = static_cast<size_t>(length);
  PrefillChunk chunk{
      .state = state(), .tokens = tokens_.subspan(first, count), .logits_row = logits_row};
  if (!scores()) return chunk;
  // After the prompt's last token there is no target; any id keeps the spans equally long.
  const auto next = tokens_.subspan(first + 1, std::min(count, tokens_.size() - first - 1));
  targets_.assign(next.begin(), next.end());
  targets_.resize(count, 0);
  target_logprobs_.resize(count);
  top_.resize(count * static_cast<size_t>(top()));
  chunk.targets = targets_;
  chunk.target_logprobs = target_logprobs_;
  chunk.top_logprobs = top();
  chunk.top = top_;
  return chunk;
}

std::vector<TokenEvent> PromptRun::Fed(int64_t length, int64_t& first) {
  const int64_t begin = fed_;
  fed_ += length;
  std::vector<TokenEvent> events;
  if (!scores()) return events;
  // A fed token predicts its successor, of which only the prompt's are wanted.
  const int64_t first_target = std::max(begin + 1, pending_);
  const int64_t end_target = std::min(begin + length + 1, static_cast<int64_t>(tokens_.size()));
  first = first_target - pending_;
  if (begin == 0 && pending_ == 0 && !tokens_.empty()) {
    first = 0;
    events.push_back(std::move(first_));
  }
  if (first_target >= end_target) return events;
  events.reserve(events.size() + static_cast<size_t>(end_target - first_target));
  for (int64_t i = first_target - begin - 1; i < end_target - begin - 1; ++i) {
    const auto row = top_.begin() + i * top();
    events.push_back({target_logprobs_[static_cast<size_t>(i)], {row, row + top()}});
  }
  return events;
}

}  // namespace tvq
