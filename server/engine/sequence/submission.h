// A checked request on its way to the loop, with everything that could be computed by the thread
// that submitted it.
#ifndef TVQ_SERVER_ENGINE_SEQUENCE_SUBMISSION_H_
#define TVQ_SERVER_ENGINE_SEQUENCE_SUBMISSION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/engine/memory/state_budget.h"
#include "server/engine/request/engine_options.h"
#include "server/engine/request/request.h"
#include "server/engine/request/text_stream.h"
#include "server/engine/request/token_counts.h"
#include "server/engine/scheduling/occupancy.h"

namespace tvq {

// What an owner was charged when a request started.
struct PromptCharge {
  int64_t tokens = 0;
  int64_t end = 0;  // FairQueue::Pop
};

struct Submission {
  RequestHandle handle = 0;
  size_t model = 0;  // index among the served models
  Request request;   // with sampling.seed set and sampling.stop_token_ids sorted, when it generates
  SteadyTime submitted;  // when it was accepted
  Need need;             // reserved when it is admitted
  // Once it is admitted:
  StateBudget::Share share;  // need.state_bytes
  PromptCharge charge;

  // Of a request that generates; each sample starts with a copy.
  std::optional<TextStream> text;  // primed with the prompt
  std::string echo;                // the prompt's text, if it is wanted
  TokenCounts counts;              // of the prompt, if a penalty is on
  std::vector<int32_t> eos_ids;    // sorted: of the model, end-of-sequence ids
  std::vector<int32_t> end_ids;    // sorted: end-of-sequence and stop ids, banned before min_tokens
};

// Checks the request against its model. The errors are those of Engine::Submit for the request's
// fields; `budget` is the number of bytes all states may take.
absl::StatusOr<Submission> Prepare(Request request, const Model& model, const EngineOptions& limits,
                                   int64_t budget);

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SEQUENCE_SUBMISSION_H_
