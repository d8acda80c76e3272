// The body of POST /v1/completions.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_COMPLETIONS_REQUEST_H_
#define TVQ_CLIENT_GATEWAY_BODIES_COMPLETIONS_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/gateway/bodies/errors.h"
#include "client/gateway/bodies/inputs.h"
#include "tvq/v1/generation.pb.h"

namespace tvq::gateway {

// Prompts of one request.
inline constexpr int kMaxPrompts = 256;

struct CompletionsRequest {
  std::string model;                       // empty: the session's, or the server's first one
  std::vector<v1::GenerateRequest> calls;  // one for each prompt, at least one
  bool is_list = false;                    // a prompt is called "prompt[1]", not "prompt"
  int32_t n = 1;                           // samples of each
  bool stream = false;
  bool include_usage = false;
  bool echo = false;
  bool logprobs = false;
  // Whether the answer shows the prompt's log-probabilities on their own, as vLLM does.
  bool prompt_logprobs = false;
  bool return_token_ids = false;

  // Of the calls.
  size_t MemoryBytes() const { return MemoryOf(calls); }
};

// Why the call with this number failed, its fields called as in the body: one of a list of prompts
// "prompt[1]", a token id "prompt[1][5]".
ApiError ToCompletionsError(const absl::Status& status, const CompletionsRequest& request,
                            size_t call);

// INVALID_ARGUMENT names the field. `idempotency_key` is for a call on a session.
absl::StatusOr<CompletionsRequest> ParseCompletions(std::string_view body,
                                                    std::string_view idempotency_key);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_COMPLETIONS_REQUEST_H_
