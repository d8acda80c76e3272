// What the engine is asked and what it answers. Plain data: no proto, no threads of its own.
#ifndef TVQ_SERVER_ENGINE_REQUEST_REQUEST_H_
#define TVQ_SERVER_ENGINE_REQUEST_REQUEST_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/ops/sample.h"
#include "models/runtime/model.h"
#include "models/runtime/text/grammar.h"
#include "server/engine/request/continuation.h"
#include "server/engine/request/owner_limits.h"

namespace tvq {

using SteadyTime = std::chrono::steady_clock::time_point;

// Names a submitted request; 0 is none.
using RequestHandle = uint64_t;

inline double Seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// vLLM's names, semantics and defaults. A sample ends, in this order, with the end-of-sequence id
// (unless ignore_eos), an id of stop_token_ids, a stop string, max_tokens.
struct SamplingParams {
  TVQ_SAMPLE_NUMBERS(TVQ_SAMPLE_MEMBER)
  std::optional<uint64_t> seed;   // unset: drawn by Submit
  std::vector<std::string> stop;  // the one that is complete first ends the sample
  std::vector<int32_t> stop_token_ids;
  bool include_stop_str_in_output = false;  // the text of a stop string or stop token is shown
  bool ignore_eos = false;
  int32_t max_tokens = 16;  // 0: the prompt alone is fed, and with echo sent
  int32_t min_tokens = 0;   // up to there no end id is sampled and no stop string counts
  std::vector<int32_t> allowed_token_ids;
  std::vector<LogitBias> logit_bias;
  std::optional<int32_t> logprobs;         // alternatives beside the chosen token
  std::optional<int32_t> prompt_logprobs;  // likewise for prompt tokens
  int32_t n = 1;
  std::shared_ptr<const Grammar> grammar;  // that every sample follows; null: none
  bool echo = false;  // each sample's first deltas are the prompt's text, without tokens
};

// The service's limits on what one request may ask for. Those of numbers stand in the proto.
inline constexpr int32_t kMaxLogprobs = 20;  // as there, of which sampling keeps so many
inline constexpr int64_t kMaxStopStrings = 64;
inline constexpr int64_t kMaxStopStringBytes = 1024;
inline constexpr int64_t kMaxEchoBytes = 16 << 20;   // of all samples together
inline constexpr size_t kEchoPieceBytes = 64 << 10;  // a delta of echo has at most so many

// INVALID_ARGUMENT naming the field, its value and the range that would be right.
absl::Status Validate(const SamplingParams& params, const ModelInfo& model);

enum class FinishReason { kNone, kStop, kLength, kCancelled, kError };

struct TokenEvent {
  TokenLogprob token;             // logprob and rank are 0 unless asked for
  std::vector<TokenLogprob> top;  // alternatives, best first
};

struct Usage {
  int64_t prompt_tokens = 0;  // counted once, however many samples
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;  // of all samples: the tokens of all deltas
};

// A piece of one sample's output. `text` never ends inside a UTF-8 character, and never shows part
// of what may become a stop string, so it may lag behind `tokens`. The tokens of a stop string are
// among `tokens`; an end-of-sequence or stop id that ended the sample is not.
struct Delta {
  int32_t index = 0;  // which of the n samples
  std::string text;
  std::vector<TokenEvent> tokens;
  FinishReason finish = FinishReason::kNone;
  std::optional<std::string> stop_string;  // with kStop: what matched
  std::optional<int32_t> stop_token;       // with kStop: the id of stop_token_ids
};

// Receives a request's output. Methods are called on the engine's loop thread and must not block:
// they hand over to another thread, or start a write. After OnEnd nothing more is called.
class RequestSink {
 public:
  virtual ~RequestSink() = default;

  // The request left the queue, has the state that it starts from, and computes; called once,
  // before any other output.
  virtual void OnStart() {}
  // Log-probabilities of prompt tokens first..first+events.size(), in order; the first token of an
  // empty context has none and comes with id and logprob 0.
  virtual void OnPrompt(int64_t first, std::vector<TokenEvent> events) = 0;
  virtual void OnDelta(Delta delta) = 0;
  // Called at least once after deltas of this request, unless OnEnd comes. By then the requests
  // computed with it have their deltas, too: the thread that takes them may be woken, once for all.
  virtual void OnDelivered() {}
  // With Purpose::kEncode, before OnEnd: Encoder::Read's.
  virtual void OnEncoded(std::vector<float> vectors) { vectors.clear(); }
  // With Request::keep, right before OnEnd: where the request ended. Called when it ended well, or
  // when it was cancelled after its prompt was fed and keep_on_cancel is set.
  virtual void OnKept(Continuation continuation) { (void)continuation; }
  // OK after every sample has finished; otherwise why the request failed, and samples that had not
  // finished get no last delta.
  virtual void OnEnd(const absl::Status& status, const Usage& usage) = 0;

  // False while so much output waits for the reader that this request should pause; what makes
  // it true again calls Engine::Wake. Any thread.
  virtual bool WantsMore() const { return true; }
};

// What a request is for.
enum class Purpose {
  kGenerate,
  kScore,   // only prompt log-probabilities; of `sampling` only prompt_logprobs is read
  kAppend,  // only the state after the prompt; of `sampling` nothing is read
  kEncode,  // only the prompt's vectors, of an encoder; likewise
};

struct Request {
  std::string id;     // for logs
  std::string model;  // name under which the model is served
  // Who asks: the name of a key, or without keys a network (NetworkOf); empty: the server itself.
  // Owners take turns, waiting and computing.
  std::string owner;
  OwnerLimits owner_limits;
  // Among the owner's requests: lower starts and computes first, in every other turn.
  int32_t priority = 0;
  Purpose purpose = Purpose::kGenerate;
  // At least one token, unless `start` has something to sample from: the RPC layer puts the id that
  // begins a context before the text, or in the place of an empty one.
  std::vector<int32_t> prompt;
  const char* prompt_field = "prompt";  // what the client calls it, for messages; a literal
  SamplingParams sampling;
  std::optional<StartPoint> start;  // unset: an empty context
  bool mean = false;                // of the vectors, to encode
  // Hand the state to the sink at the end; needs n = 1. A score then feeds its last token too.
  bool keep = false;
  bool keep_on_cancel = false;  // also of a request that was cancelled while it generated
  // Ascending multiples of the model's prefill_chunk inside the prompt, counted from its first
  // token: at each of them `prefixes` gets a copy of the state, if the budget has room for one.
  // Only with a context that was empty.
  std::vector<int64_t> prefix_marks;
  std::shared_ptr<PrefixSink> prefixes;
  SteadyTime deadline = SteadyTime::max();
  std::shared_ptr<RequestSink> sink;
};

// Whether the request wants log-probabilities of its prompt.
inline bool Scores(const Request& request) {
  return request.purpose == Purpose::kScore ||
         (request.purpose == Purpose::kGenerate && request.sampling.prompt_logprobs);
}

// Whether tokens are sampled.
inline bool Samples(const Request& request) {
  return request.purpose == Purpose::kGenerate && request.sampling.max_tokens > 0;
}

// That have a state each.
inline int64_t Sequences(const Request& request) {
  return Samples(request) ? request.sampling.n : 1;
}

// Tokens of the context before the request's own prompt; pending ones are included.
inline int64_t ContextBefore(const Request& request) {
  if (!request.start) return 0;
  return request.start->position - request.start->prompt_tokens +
         static_cast<int64_t>(request.start->pending.size());
}

// Tokens that its state may come to hold: the last one is not fed, but a session that continues
// would feed it.
inline int64_t MostTokens(const Request& request) {
  const bool generates = request.purpose == Purpose::kGenerate;
  return ContextBefore(request) + static_cast<int64_t>(request.prompt.size()) +
         (generates ? request.sampling.max_tokens : 0);
}

// Validate, and the same for prompt and context length.
absl::Status Validate(const Request& request, const ModelInfo& model);

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_REQUEST_REQUEST_H_
