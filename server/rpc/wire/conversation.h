// Conversations that a model's own template writes.
#ifndef TVQ_SERVER_RPC_WIRE_CONVERSATION_H_
#define TVQ_SERVER_RPC_WIRE_CONVERSATION_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/runtime/text/conversation_writer.h"
#include "server/engine/engine.h"
#include "server/rpc/wire/convert.h"
#include "tvq/v1/generation.pb.h"

namespace tvq {

// Before anything is written. UNIMPLEMENTED if the model has no template, INVALID_ARGUMENT for more
// bytes than a text may have.
absl::Status CheckConversation(const v1::Conversation& message, const ServedModel& model,
                               const RequestLimits& limits);

// Takes as long as the template does. Errors of CheckConversation and ConversationWriter::Write,
// with the names of our fields.
absl::StatusOr<Conversation> WriteConversation(const v1::Conversation& message,
                                               const ServedModel& model,
                                               const RequestLimits& limits);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_CONVERSATION_H_
