#include "server/rpc/calls/generate_call.h"

#include <algorithm>
#include <utility>

#include "server/rpc/wire/conversation.h"
#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/form.h"
#include "server/rpc/wire/wire.h"

namespace tvq {

absl::Status GenerateCall::Parse(const grpc::ByteBuffer& bytes) {
  return ParseMessage(bytes, &message_);
}

const v1::SessionCall* GenerateCall::SessionField() const {
  return message_.has_session() ? &message_.session() : nullptr;
}

size_t GenerateCall::SlowWork(size_t bytes) const {
  if (AsksForForm(message_.sampling())) return std::max(bytes, kShortWorkBytes + 1);
  return message_.has_conversation() ? bytes : 0;
}

absl::Status GenerateCall::PrepareToConvert(const SessionUse* session) {
  if (!AsksForForm(message_.sampling()) && !message_.has_conversation()) return absl::OkStatus();
  const auto model = Model(message_.model(), session);
  if (!model.ok()) return model.status();
  auto grammar = ToGrammar(message_.sampling(), **model);
  if (!grammar.ok()) return grammar.status();
  grammar_ = *std::move(grammar);
  if (!message_.has_conversation()) return absl::OkStatus();
  auto written = WriteConversation(message_.conversation(), **model, context().limits);
  if (!written.ok()) return written.status();
  conversation_ = *std::move(written);
  return absl::OkStatus();
}

absl::StatusOr<Request> GenerateCall::Convert(SessionUse* session) {
  const v1::GenerateRequest message = std::move(message_);
  const auto model = Model(message.model(), session);
  if (!model.ok()) return model.status();
  Conversation conversation = std::exchange(conversation_, {});
  ConversationTurn turn;
  if (session != nullptr && message.has_conversation()) {
    auto next = session->GoOn(*(*model)->model->info().conversations, std::move(conversation));
    if (!next.ok()) return next.status();
    turn = *std::move(next);
  } else {
    turn.ids = std::move(conversation.ids);
  }
  ContextStart start = StartOf(session != nullptr ? &session->record() : nullptr);
  start.conversation = std::move(turn.ids);
  auto request = ToRequest(message, **model, context().limits, start);
  if (!request.ok()) return request;
  request->sampling.grammar = std::exchange(grammar_, nullptr);
  output_ = GenerateOutput((*model)->model->tokenizer(), request->sampling.logprobs.has_value(),
                           turn.reread);
  return request;
}

absl::StatusOr<grpc::ByteBuffer> GenerateCall::ToMessage(const Backlog& backlog) {
  return SerializeMessage(output_.ToMessage(backlog));
}

absl::StatusOr<grpc::ByteBuffer> GenerateCall::Replay(const std::string& reply,
                                                      int64_t persisted_version) {
  v1::GenerateResponse message;
  if (auto status = ParseReply(reply, &message); !status.ok()) return status;
  message.mutable_session()->set_persisted_version(persisted_version);
  return SerializeMessage(message);
}

}  // namespace tvq
