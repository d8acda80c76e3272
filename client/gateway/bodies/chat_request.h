// The body of POST /v1/chat/completions.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_CHAT_REQUEST_H_
#define TVQ_CLIENT_GATEWAY_BODIES_CHAT_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/chat/conversation.h"
#include "client/gateway/bodies/conversation_body.h"
#include "client/gateway/bodies/errors.h"
#include "tvq/v1/generation.pb.h"
#include "tvq/v1/model.pb.h"

namespace tvq::gateway {

struct ChatRequest {
  BodyConversation conversation;  // until it is the call's prompt
  v1::GenerateRequest call;
  std::vector<chat::Place> contents;  // of the messages in the prompt, once it is written
  int32_t n = 1;
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
  bool return_token_ids = false;
  std::string max_tokens_field = "max_tokens";  // that the body has

  // Of the conversation, the call and the places.
  size_t MemoryBytes() const;
};

// Why the call failed, its fields called as in the body.
ApiError ToChatError(const absl::Status& status, const ChatRequest& request);

// INVALID_ARGUMENT names the field. `idempotency_key` is for a call on a session.
absl::StatusOr<ChatRequest> ParseChat(std::string_view body, std::string_view idempotency_key);

// Makes the conversation the call's prompt. INVALID_ARGUMENT if the model has no template, or none
// for a role.
absl::Status ApplyTemplate(const v1::Model& model, ChatRequest* request);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_CHAT_REQUEST_H_
