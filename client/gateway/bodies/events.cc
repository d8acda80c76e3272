#include "client/gateway/bodies/events.h"

#include <algorithm>

namespace tvq::gateway {

size_t MemoryOf(const v1::GenerateResponse& message) {
  const bool probabilities =
      !message.prompt_logprobs().empty() ||
      std::any_of(message.deltas().begin(), message.deltas().end(),
                  [](const v1::SampleDelta& delta) { return !delta.logprobs().empty(); });
  return message.ByteSizeLong() * (probabilities ? 10 : 1);
}

void AddUsage(const v1::Usage& usage, v1::Usage* sum) {
  sum->set_prompt_tokens(sum->prompt_tokens() + usage.prompt_tokens());
  sum->set_cached_tokens(sum->cached_tokens() + usage.cached_tokens());
  sum->set_reread_tokens(sum->reread_tokens() + usage.reread_tokens());
  sum->set_completion_tokens(sum->completion_tokens() + usage.completion_tokens());
}

}  // namespace tvq::gateway
