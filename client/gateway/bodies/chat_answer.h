// Answers of POST /v1/chat/completions, whole and as events.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_CHAT_ANSWER_H_
#define TVQ_CLIENT_GATEWAY_BODIES_CHAT_ANSWER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "client/gateway/bodies/chat_request.h"
#include "client/gateway/bodies/events.h"
#include "tvq/v1/generation.pb.h"

namespace tvq::gateway {

class ChatEvents final : public Events {
 public:
  // `request` outlives it.
  ChatEvents(const ChatRequest& request, const AnswerHead& head);

  void Append(size_t call, const v1::GenerateResponse& response, std::string* out) override;
  // Usage, if it was asked for.
  void AppendEnd(std::string* out) override;

 private:
  void AppendDelta(const v1::SampleDelta& delta, v1::FinishReason finish,
                   const v1::SessionPosition* session, std::string* out);

  const ChatRequest& request_;
  std::string prefix_;  // of every event, up to the choices
  std::string suffix_;
  std::vector<bool> started_;            // for each sample
  std::optional<v1::SampleDelta> last_;  // on a session: kept until its position is known
  v1::Usage usage_;
};

class ChatWhole final : public Whole {
 public:
  // `request` outlives it.
  ChatWhole(const ChatRequest& request, AnswerHead head);

  void Add(size_t call, const v1::GenerateResponse& response) override;
  std::string ToJson() const override;

 private:
  struct Choice {
    std::string text;
    v1::SampleDelta all;  // its deltas as one, but for the text
  };

  const ChatRequest& request_;
  const AnswerHead head_;
  std::vector<Choice> choices_;
  v1::Usage usage_;
  std::optional<v1::SessionPosition> session_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_CHAT_ANSWER_H_
