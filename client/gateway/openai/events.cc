#include "client/gateway/openai/events.h"

namespace tvq::gateway {

void AddUsage(const v1::Usage& usage, v1::Usage* sum) {
  sum->set_prompt_tokens(sum->prompt_tokens() + usage.prompt_tokens());
  sum->set_cached_tokens(sum->cached_tokens() + usage.cached_tokens());
  sum->set_completion_tokens(sum->completion_tokens() + usage.completion_tokens());
}

}  // namespace tvq::gateway
