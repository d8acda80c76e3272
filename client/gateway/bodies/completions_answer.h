// Answers of POST /v1/completions, whole and as events.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_COMPLETIONS_ANSWER_H_
#define TVQ_CLIENT_GATEWAY_BODIES_COMPLETIONS_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/gateway/bodies/completions_request.h"
#include "client/gateway/bodies/events.h"
#include "tvq/v1/generation.pb.h"

namespace tvq::gateway {

// A call for each prompt.
class CompletionsEvents final : public Events {
 public:
  // `request` outlives it.
  CompletionsEvents(const CompletionsRequest& request, const AnswerHead& head);

  void Append(size_t prompt, const v1::GenerateResponse& response, std::string* out) override;
  // Usage, if it was asked for.
  void AppendEnd(std::string* out) override;

 private:
  struct Prompt {
    std::vector<v1::TokenLogprobs> logprobs;
  };
  struct Choice {
    size_t prompt_logprobs = 0;  // of the prompt's, sent
    int64_t offset = 0;          // characters of the tokens sent
    v1::SampleDelta last;  // of a call on a session: kept until the session's position is known
    bool has_last = false;
  };

  void AppendDelta(size_t prompt, const v1::SampleDelta& delta, v1::FinishReason finish,
                   const v1::SessionPosition* session, std::string* out);

  const CompletionsRequest& request_;
  std::string prefix_;  // of every event, up to the choices
  std::string suffix_;
  std::vector<Prompt> prompts_;
  std::vector<Choice> choices_;
  v1::Usage usage_;
};

class CompletionsWhole final : public Whole {
 public:
  // `request` outlives it.
  CompletionsWhole(const CompletionsRequest& request, AnswerHead head);

  void Add(size_t prompt, const v1::GenerateResponse& response) override;
  std::string ToJson() const override;

 private:
  struct Choice {
    std::string text;
    std::vector<int32_t> token_ids;
    std::vector<v1::TokenLogprobs> logprobs;
    v1::SampleDelta last;
  };

  void AppendChoice(size_t index, std::string* out) const;

  const CompletionsRequest& request_;
  const AnswerHead head_;
  std::vector<std::vector<v1::TokenLogprobs>> prompt_logprobs_;
  std::vector<Choice> choices_;
  v1::Usage usage_;
  std::optional<v1::SessionPosition> session_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_COMPLETIONS_ANSWER_H_
