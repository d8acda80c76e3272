// The conversation of a body, for models that have templates of their own and for those whose
// chat_template writes text.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_CONVERSATION_BODY_H_
#define TVQ_CLIENT_GATEWAY_BODIES_CONVERSATION_BODY_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/chat/conversation.h"
#include "client/gateway/bodies/errors.h"
#include "client/gateway/bodies/json_body.h"
#include "tvq/v1/generation.pb.h"
#include "tvq/v1/model.pb.h"

namespace tvq::gateway {

// The model's kind is known later. INVALID_ARGUMENT names what a model of that kind cannot take.
struct BodyConversation {
  v1::Conversation own;  // as a model's own template is given it
  absl::Status own_status;
  std::vector<chat::Message> messages;  // as a chat_template writes them; at least one
  absl::Status text_status;

  size_t MemoryBytes() const;
};

// Reads messages and what belongs to them of a body, of which `fields` are. They say what is wrong
// for all models.
BodyConversation ReadConversation(std::string_view body, const Json& json, Fields& fields);

// Makes the conversation the call's prompt, and takes it away. Returns where the messages are in a
// text. INVALID_ARGUMENT if the model has no template, or cannot take the conversation.
absl::StatusOr<std::vector<chat::Place>> Ask(const v1::Model& model, BodyConversation& conversation,
                                             v1::GenerateRequest* call);

// Of the server's fields, those of a body.
const FieldNames& ConversationFieldNames();

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_CONVERSATION_BODY_H_
