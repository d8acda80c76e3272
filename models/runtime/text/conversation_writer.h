// Writes conversations by the model's own chat template.
#ifndef TVQ_MODELS_RUNTIME_TEXT_CONVERSATION_WRITER_H_
#define TVQ_MODELS_RUNTIME_TEXT_CONVERSATION_WRITER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tvq {

// JSON as in OpenAI's API. The template gets it unchanged, but without fields of messages that are
// null.
struct ConversationRequest {
  std::string messages;         // an array of objects
  std::string tools;            // an array; empty: none
  std::string template_kwargs;  // an object, such as {"enable_thinking": false}; empty: none
  // Which of several templates; empty: "default", or with tools "tool_use" if there is one.
  std::string template_name;
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the text ends with the last message's content
};

struct Conversation {
  std::string text;
  std::vector<int32_t> ids;
};

// A model's chat template (Jinja) and its tokenizer. Immutable after loading; all methods may be
// called from any thread.
class ConversationWriter {
 public:
  virtual ~ConversationWriter() = default;

  // Text of a message that spells a special token never becomes that token. INVALID_ARGUMENT if the
  // template raises an error, with its message, or if the JSON is wrong, naming the field;
  // RESOURCE_EXHAUSTED if the template runs too long or writes too much; UNAVAILABLE if too many
  // others run, or if the template does not end in time.
  virtual absl::StatusOr<Conversation> Write(const ConversationRequest& request) const = 0;

  // How a context continues as `conversation`: its first `kept` tokens stay, and `ids` follow them.
  // If the conversation's text begins with the text of the whole context, special tokens included,
  // all tokens of the context are kept; else those of the longest common prefix of ids.
  struct Continuation {
    int64_t kept = 0;
    std::vector<int32_t> ids;
  };
  virtual absl::StatusOr<Continuation> Continue(const Conversation& conversation,
                                                std::span<const int32_t> context) const = 0;

  // The names of its templates.
  virtual std::vector<std::string> names() const = 0;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TEXT_CONVERSATION_WRITER_H_
