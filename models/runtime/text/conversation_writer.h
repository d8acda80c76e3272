// A conversation as the model's own template writes it.
#ifndef TVQ_MODELS_RUNTIME_TEXT_CONVERSATION_WRITER_H_
#define TVQ_MODELS_RUNTIME_TEXT_CONVERSATION_WRITER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tvq {

// JSON as in OpenAI's API, which the template is given as it is but for what is null in a message.
struct ConversationRequest {
  std::string messages;         // an array of objects
  std::string tools;            // an array; empty: none
  std::string template_kwargs;  // an object, as {"enable_thinking": false}; empty: none
  // Of several templates; empty: "default", or with tools "tool_use" if there is one.
  std::string template_name;
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the text ends where the last message does
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

  // Text of a message that spells a special token never becomes that token. INVALID_ARGUMENT with
  // what the template raised, or what is wrong with the JSON, naming the field; RESOURCE_EXHAUSTED
  // when the template runs too long or writes too much.
  virtual absl::StatusOr<Conversation> Write(const ConversationRequest& request) const = 0;

  // How a context goes on: `kept` of its tokens stay, and `ids` follow them. If the text of the
  // whole context, special tokens shown, begins the conversation's text, all of it is kept; else
  // the longest common prefix of ids.
  struct Continuation {
    int64_t kept = 0;
    std::vector<int32_t> ids;
  };
  virtual absl::StatusOr<Continuation> Continue(const Conversation& conversation,
                                                std::span<const int32_t> context) const = 0;

  // Of its templates.
  virtual std::vector<std::string> names() const = 0;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TEXT_CONVERSATION_WRITER_H_
