// How a request begins where another ended.
#ifndef TVQ_SERVER_ENGINE_REQUEST_CONTINUATION_H_
#define TVQ_SERVER_ENGINE_REQUEST_CONTINUATION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/request/held_state.h"

namespace tvq {

// How a context ends in which something was generated.
struct AnswerEnd {
  static constexpr size_t kMaxTail = 64;

  // The last bytes of its text since that generation began, at most kMaxTail.
  std::string tail;
  // Of these, how many are no part of the answer: the stop string that ended it, what its last
  // token has behind that, and the prompts of requests since that generated nothing.
  size_t after = 0;
  // Such a prompt came.
  bool appended = false;

  // For a context that ends with `text`: the answer's last tokens, with kMaxTail bytes or more, or
  // all of them. The last `last_token` bytes of `text` are the last token's, in which the stop
  // string `stop` ended the answer; empty: no stop string did.
  static AnswerEnd Of(std::string_view text, size_t last_token, std::string_view stop);

  // The context goes on with text that is no part of the answer.
  void Append(std::string_view text);
  bool operator==(const AnswerEnd&) const = default;
};

// Provides the state that a request starts from. Lives until it has called `done`.
class StateSource {
 public:
  virtual ~StateSource() = default;

  // Fills `blank`, a zeroed state of the request's model, and hands it to `done`, on any thread,
  // perhaps within the call. Called once, on the engine's loop, when the request is admitted; must
  // not block: reading and copying are for other threads. If the request has ended meanwhile, what
  // `done` gets is dropped.
  using Done = std::function<void(absl::StatusOr<HeldState> filled)>;
  virtual void Fill(HeldState blank, Done done) = 0;
};

// Where a request starts, if not from an empty context.
struct StartPoint {
  std::shared_ptr<StateSource> source;
  int64_t position = 0;  // tokens that the state holds

  // Of a session: ids the state was not fed, which go before the prompt and are no part of it.
  std::vector<int32_t> pending;
  // Logits after the last token that the state was fed, [vocab_size]; null if `pending` has tokens
  // or the prompt follows anyway and is not scored.
  std::shared_ptr<const std::vector<float>> logits;

  // Of a kept prefix: tokens of the request's own prompt that the state holds already, fewer than
  // the prompt has. The source may fill a state of fewer whole chunks: the rest is computed.
  int64_t prompt_tokens = 0;

  // Continuation::answer_end of the request that ended here.
  std::optional<AnswerEnd> answer_end;
};

// What a request leaves for the next one.
struct Continuation {
  // Until this is dropped, the state counts as its owner's, like those of running requests. Drop it
  // when the state can be moved, as a session's can, or is gone. It is destroyed after the state.
  std::shared_ptr<const void> claim;
  HeldState held;
  std::vector<int32_t> pending;  // sampled and not fed
  std::vector<float> logits;     // after the last fed token, if nothing is pending
  // What the context has gained: the prompt and the generated tokens, an ending id excluded.
  std::vector<int32_t> tokens;
  // Unset: nothing was generated in it, or that is not known.
  std::optional<AnswerEnd> answer_end;
};

// Receives states of a prompt on its way.
class PrefixSink {
 public:
  virtual ~PrefixSink() = default;
  // `copy` holds the first `prompt_tokens` tokens of the prompt. On the loop; must not block.
  virtual void OnPrefix(int64_t prompt_tokens, HeldState copy) = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_REQUEST_CONTINUATION_H_
