#include "server/engine/prompt_run.h"

#include <algorithm>
#include <span>

namespace tvq {

PromptRun::PromptRun(const Request& request, std::unique_ptr<State> state)
    : request_(&request),
      state_(std::move(state)),
      total_(static_cast<int64_t>(request.prompt.size()) -
             (request.purpose == Purpose::kScore ? 1 : 0)) {}

PrefillChunk PromptRun::Chunk(int64_t length, int64_t logits_row) {
  const std::span<const int32_t> prompt(request_->prompt);
  const auto first = static_cast<size_t>(fed_);
  const auto count = static_cast<size_t>(length);
  PrefillChunk chunk{
      .state = state_.get(), .tokens = prompt.subspan(first, count), .logits_row = logits_row};
  if (!scores()) return chunk;
  // After the prompt's last token there is no target; any id keeps the spans equally long.
  const auto next = prompt.subspan(first + 1, std::min(count, prompt.size() - first - 1));
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
  first = begin == 0 ? 0 : begin + 1;
  if (begin == 0) events.push_back(FirstToken());
  const int64_t prompt_size = static_cast<int64_t>(request_->prompt.size());
  const int64_t scored = std::min(length, prompt_size - begin - 1);
  events.reserve(events.size() + static_cast<size_t>(scored));
  for (int64_t i = 0; i < scored; ++i) {
    const auto row = top_.begin() + i * top();
    events.push_back({target_logprobs_[static_cast<size_t>(i)], {row, row + top()}});
  }
  return events;
}

}  // namespace tvq
