// A choice of a completion, or a piece of one, as JSON text.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_CHOICE_H_
#define TVQ_CLIENT_GATEWAY_BODIES_CHOICE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tvq/v1/generation.pb.h"

namespace tvq::gateway {

// The bytes of a token as text: "bytes:\xe2\x80" if they are no text, "token_id:7" if there are
// none.
std::string TokenText(const v1::TokenLogprob& token);

// Characters of a token's text that begin in it.
int64_t CharactersOf(std::string_view bytes);

// OpenAI's object for tokens, whose first begins at character `*offset` of the text; moves it on.
void AppendLogprobs(std::span<const v1::TokenLogprobs* const> tokens, int64_t* offset,
                    std::string* out);

// vLLM's: null for a token without a probability, otherwise an object by token ids.
void AppendPromptLogprobs(std::span<const v1::TokenLogprobs* const> tokens, std::string* out);

// ,"finish_reason":...,"stop_reason":... as the last delta has them, both null before it.
void AppendFinish(v1::FinishReason reason, const v1::SampleDelta& delta, std::string* out);

void AppendIds(std::span<const int32_t> ids, std::string* out);

// "usage":{...} of all calls together.
void AppendUsage(const v1::Usage& usage, std::string* out);

// "session":{...}
void AppendSession(const v1::SessionPosition& session, std::string* out);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_CHOICE_H_
